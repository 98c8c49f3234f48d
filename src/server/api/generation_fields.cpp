#include "server/api/generation_fields.h"

#include <fmt/format.h>

#include <charconv>

#include "sample/options.h"
#include "server/api/error.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

constexpr double kMostBias = 100;
constexpr double kMostPenalty = 2;

template <typename T, typename V>
void assign(std::optional<T>& target, const std::optional<V>& value) {
  if (value) target = static_cast<T>(*value);
}

void read_sampling(const Fields& body, session::SamplingChoice& choice) {
  assign(choice.temperature, body.number("temperature", 0, 100));
  assign(choice.top_p, body.number_above("top_p", 0, 1));
  assign(choice.min_p, body.number("min_p", 0, 1));
  // vLLM writes -1 for "all", llama.cpp 0.
  if (const auto top_k = body.integer("top_k", -1, INT32_MAX))
    choice.top_k = static_cast<int>(std::max<int64_t>(*top_k, 0));
  for (const char* name : {"repeat_penalty", "repetition_penalty"})  // llama.cpp's and vLLM's name
    assign(choice.repetition_penalty, body.number_above(name, 0, 100));
  assign(choice.presence_penalty, body.number("presence_penalty", -kMostPenalty, kMostPenalty));
  assign(choice.frequency_penalty, body.number("frequency_penalty", -kMostPenalty, kMostPenalty));
  assign(choice.penalty_window, body.integer("repeat_last_n", -1, INT32_MAX));
}

// Every 64-bit number is a seed, with a sign or without.
void read_seed(const Fields& body, GenerationFields& read) {
  const json* value = body.find("seed");
  if (value == nullptr) return;
  if (value->is_number_unsigned()) {
    read.generation.sampling.seed = value->get<uint64_t>();
    return;
  }
  const auto seed = body.integer("seed", INT64_MIN, INT64_MAX);
  read.negative_seed = *seed < 0;
  read.generation.sampling.seed = static_cast<uint64_t>(*seed);
}

int bias_id(const std::string& key, const std::string& path, int vocab) {
  int id = -1;
  const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc{} || stop != key.data() + key.size() || id < 0 || id >= vocab) {
    fail_field(path, "the keys must be token ids from 0 to {}, not '{}'", vocab - 1, key.substr(0, 40));
  }
  return id;
}

void read_bias(const Fields& body, int vocab, std::vector<sample::LogitBias>& biases) {
  const auto object = body.object("logit_bias");
  if (!object) return;
  for (const auto& [key, value] : body.find("logit_bias")->items()) {
    const int id = bias_id(key, "logit_bias", vocab);
    const auto bias = object->number(key.c_str(), -kMostBias, kMostBias);
    if (!bias) fail_field("logit_bias." + key, "must be a number from -100 to 100, not null");
    std::erase_if(biases, [id](const sample::LogitBias& other) { return other.id == id; });  // "7" and "07"
    biases.push_back({id, static_cast<float>(*bias)});
  }
}

void read_lengths(const Fields& body, GenerationFields& read) {
  read.max_tokens = body.integer("max_tokens", 0, INT64_MAX);
  if (const auto newer = body.integer("max_completion_tokens", 0, INT64_MAX)) read.max_tokens = newer;
  if (const auto least = body.integer("min_tokens", 0, INT32_MAX)) {
    if (read.max_tokens && *least > *read.max_tokens)
      fail_field(body.path("min_tokens"), "must be at most max_tokens ({}), not {}", *read.max_tokens,
                 *least);
    read.generation.min_tokens = static_cast<int>(*least);
  }
}

}  // namespace

void read_stops(const Fields& body, const char* key, std::vector<std::string>& stops) {
  const json* value = body.find(key);
  if (value == nullptr) return;
  const auto add = [&](const json& stop, const std::string& path) {
    if (!stop.is_string()) fail_field(path, "must be a string, not {}", kind_text(stop));
    const auto& text = stop.get_ref<const std::string&>();
    if (text.empty()) fail_field(path, "must not be empty: it would match before the first token");
    if (text.size() > kLongestStop)
      fail_field(path, "must have at most {} bytes, not {}", kLongestStop, text.size());
    stops.push_back(text);
  };
  if (!value->is_array()) return add(*value, body.path(key));
  if (value->size() > kMostStops)
    fail_field(body.path(key), "must hold at most {} strings, not {}", kMostStops, value->size());
  for (size_t i = 0; i < value->size(); ++i) add((*value)[i], fmt::format("{}[{}]", body.path(key), i));
}

GenerationFields read_generation(const Fields& body, int vocab) {
  GenerationFields read;
  read.model = body.text("model").value_or("");
  read_sampling(body, read.generation.sampling);
  read_seed(body, read);
  read_bias(body, vocab, read.generation.sampling.logit_bias);
  read_stops(body, "stop", read.generation.stop_strings);
  read_lengths(body, read);
  read.generation.ignore_stop_ids = body.boolean_or("ignore_eos", false);
  read.generation.stop_ids = body.ids("stop_token_ids", vocab).value_or(std::vector<int>());
  read.generation.draft = body.boolean_or("draft", true);
  read.choices = static_cast<int>(body.integer("n", 1, kMostChoices).value_or(1));
  read.stream = body.boolean_or("stream", false);
  if (const auto options = body.object("stream_options"))
    read.include_usage = options->boolean_or("include_usage", false);
  read.report_drafts = body.boolean_or("report_drafts", false);
  read.continue_ids = body.ids("continue_token_ids", vocab).value_or(std::vector<int>());
  read.cache_salt = body.text("cache_salt").value_or("");
  body.text("prompt_cache_key");  // a hint for routers; its type is checked, no more
  body.text("user");
  read.deadline_s = body.number_above("deadline", 0, 1e6);
  return read;
}

void refuse_forced_forms(const Fields& body) {
  for (const char* key : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                          "structured_outputs", "grammar", "json_schema"}) {
    if (body.has(key)) {
      fail_unsupported(body.path(key), "this server cannot force a form on its answers yet; leave it out");
    }
  }
}

}  // namespace slip::server::api
