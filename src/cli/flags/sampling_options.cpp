#include "cli/flags/sampling_options.h"

#include <algorithm>

#include "base/error.h"
#include "cli/terminal/output.h"

namespace slip::cli {

void add_sampling_options(Parser& parser, session::SamplingChoice& options) {
  parser.group("Sampling (defaults come from the checkpoint)");
  parser.number({"--temp,--temperature", "T", "0 takes the likeliest token, higher is wilder"}, 0, 100,
                options.temperature);
  parser.integer({"--top-k", "N", "only the N likeliest tokens; 0 = all"}, 0, INT32_MAX, options.top_k);
  parser.number({"--top-p", "P", "only the likeliest tokens that together reach P; 1 = all"}, 1e-6, 1,
                options.top_p);
  parser.number({"--min-p", "P", "only tokens at least P times as likely as the likeliest"}, 0, 1,
                options.min_p);
  parser.number(
      {"--repeat-penalty,--repetition-penalty", "X", "divide the score of tokens seen before; 1 = off"}, 0.01,
      100, options.repetition_penalty);
  parser.number({"--presence-penalty", "X", "subtract X once from tokens already in the answer"}, -100, 100,
                options.presence_penalty);
  parser.number({"--frequency-penalty", "X", "subtract X for every time a token was answered"}, -100, 100,
                options.frequency_penalty);
  parser.integer({"--penalty-window,--repeat-last-n", "N", "tokens the penalties look back at; -1 = all"}, -1,
                 INT32_MAX, options.penalty_window);
  parser.parsed({"--logit-bias", "ID=X", "add X to the score of token ID; may be repeated"},
                [&options](const std::string& text) { add_logit_bias(text, options.logit_bias); });
  parser.integer({"-s,--seed", "N", "the same seed gives the same text"}, 0, INT64_MAX, options.seed);
}

void add_logit_bias(const std::string& text, std::vector<sample::LogitBias>& biases) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t split = item.find_first_of("=:");
    if (split == std::string::npos)
      fail_usage("--logit-bias must look like 106=-5 (token id = value), not '{}'", escaped(item));
    const auto id =
        static_cast<int>(parse_integer("the token id of --logit-bias", item.substr(0, split), 0, INT32_MAX));
    const auto value =
        static_cast<float>(parse_number("the value of --logit-bias", item.substr(split + 1), -10000, 10000));
    std::erase_if(biases, [id](const sample::LogitBias& bias) { return bias.id == id; });
    biases.push_back({id, value});
  }
}

}  // namespace slip::cli
