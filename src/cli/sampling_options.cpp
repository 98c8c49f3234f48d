#include "cli/sampling_options.h"

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "cli/output.h"

namespace slip::cli {
namespace {

uint64_t fresh_seed() {
  std::random_device device;
  // 53 bits: such a seed survives a trip through JSON readers that keep numbers as doubles.
  return ((uint64_t{device()} << 32) | device()) >> 11;
}

}  // namespace

void add_sampling_options(Parser& parser, SamplingOptions& options) {
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
      100, options.repeat_penalty);
  parser.number({"--presence-penalty", "X", "subtract X once from tokens already in the answer"}, -100, 100,
                options.presence_penalty);
  parser.number({"--frequency-penalty", "X", "subtract X for every time a token was answered"}, -100, 100,
                options.frequency_penalty);
  parser.integer({"--penalty-window,--repeat-last-n", "N", "tokens the penalties look back at; -1 = all"}, -1,
                 INT32_MAX, options.penalty_window);
  parser.texts({"--logit-bias", "ID=X", "add X to the score of token ID; may be repeated"},
               options.logit_bias);
  parser.integer({"-s,--seed", "N", "the same seed gives the same text"}, 0, INT64_MAX, options.seed);
}

std::vector<sample::LogitBias> parse_logit_bias(const std::vector<std::string>& texts, int vocab) {
  std::map<int, float> biases;
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string item = text.substr(begin, end - begin);
      begin = end + 1;
      const size_t split = item.find_first_of("=:");
      if (split == std::string::npos) {
        fail_usage("--logit-bias must look like 106=-5 (token id = value), not '{}'", escaped(item));
      }
      const auto id = parse_integer("the token id of --logit-bias", item.substr(0, split), 0, vocab - 1);
      const auto value = parse_number("the value of --logit-bias", item.substr(split + 1), -10000, 10000);
      biases[static_cast<int>(id)] = static_cast<float>(value);
    }
  }
  std::vector<sample::LogitBias> sorted;
  for (const auto& [id, value] : biases) sorted.push_back({id, value});
  return sorted;
}

sample::Options resolve_sampling(const SamplingOptions& options, const checkpoint::GenerationConfig& defaults,
                                 int vocab) {
  sample::Options result;
  result.temperature = options.temperature.value_or(defaults.do_sample ? defaults.temperature : 0);
  result.top_k = options.top_k.value_or(defaults.top_k > 0 ? defaults.top_k : 0);
  result.top_p = options.top_p.value_or(defaults.top_p > 0 ? defaults.top_p : 1);
  result.min_p = options.min_p.value_or(defaults.min_p > 0 ? defaults.min_p : 0);
  result.repetition_penalty =
      options.repeat_penalty.value_or(defaults.repetition_penalty > 0 ? defaults.repetition_penalty : 1);
  result.presence_penalty = options.presence_penalty.value_or(0);
  result.frequency_penalty = options.frequency_penalty.value_or(0);
  result.penalty_window = options.penalty_window.value_or(-1);
  result.logit_bias = parse_logit_bias(options.logit_bias, vocab);
  result.suppressed = defaults.suppress_ids;
  result.seed = options.seed ? *options.seed : fresh_seed();
  result.top_logprobs = options.logprobs.value_or(-1);
  sample::validate(result, vocab);
  return result;
}

}  // namespace slip::cli
