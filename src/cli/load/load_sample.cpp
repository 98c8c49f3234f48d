#include "cli/load/load_sample.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace slip::cli {
namespace {

using nlohmann::json;

constexpr size_t kShown = 300;  // of an answer that is an error

bool has_text(const json& choice, const char* key) {
  const auto found = choice.find(key);
  return found != choice.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

/// Whether a choice brings tokens, in any of the fields that servers put them in.
bool brings_tokens(const json& choice) {
  if (has_text(choice, "text")) return true;
  const json delta = choice.value("delta", json::object());
  if (!delta.is_object()) return false;
  return has_text(delta, "content") || has_text(delta, "reasoning_content") || has_text(delta, "reasoning") ||
         (delta.contains("tool_calls") && !delta["tool_calls"].empty());
}

int count_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<int>() : 0;
}

json object_of(const json& parent, const char* key) {
  const auto found = parent.find(key);
  return found != parent.end() && found->is_object() ? *found : json::object();
}

}  // namespace

void LoadReader::on_body(std::string_view bytes, double now) {
  text_ += bytes;
  if (status_ != 200) {
    if (text_.size() > kShown) text_.resize(kShown);
    return;
  }
  size_t begin = 0;
  for (size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view line = std::string_view(text_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;  // names, comments, empty lines
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    event(line, now);
  }
  text_.erase(0, begin);
}

void LoadReader::event(std::string_view data, double now) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const json body = json::parse(data, nullptr, false);
  if (!body.is_object()) {
    sample_.error = fmt::format("an event is no JSON: {}", data.substr(0, kShown));
    return;
  }
  if (const auto error = body.find("error"); error != body.end()) {
    sample_.error = error->is_object() ? error->value("message", error->dump()) : error->dump();
    return;
  }
  bool tokens = false;
  if (const auto choices = body.find("choices"); choices != body.end() && choices->is_array()) {
    for (const json& choice : *choices) tokens = tokens || (choice.is_object() && brings_tokens(choice));
  }
  if (tokens) {
    if (sample_.first == 0) {
      sample_.first = now;
    } else {
      sample_.pauses.push_back(now - sample_.last);
    }
    sample_.last = now;
  }
  if (const json usage = object_of(body, "usage"); !usage.empty()) {
    sample_.prompt_tokens = count_of(usage, "prompt_tokens");
    sample_.output_tokens = count_of(usage, "completion_tokens");
    sample_.cached_tokens = count_of(object_of(usage, "prompt_tokens_details"), "cached_tokens");
  }
  if (const json timings = object_of(body, "timings"); !timings.empty()) {
    sample_.drafted = count_of(timings, "draft_n");
    sample_.accepted = count_of(timings, "draft_n_accepted");
  }
}

LoadSample LoadReader::finish(const std::string& error, double now) {
  sample_.ended = now;
  if (!error.empty()) {
    sample_.error = error;
  } else if (status_ != 200) {
    sample_.error = fmt::format("HTTP {}: {}", status_, text_);
  } else if (sample_.error.empty() && !done_) {
    sample_.error = "the stream ended without [DONE]";
  } else if (sample_.error.empty() && sample_.output_tokens == 0) {
    sample_.error = "the answer came without its usage";
  }
  if (sample_.error.empty() && sample_.first == 0) sample_.first = sample_.last = now;  // tokens without text
  return std::move(sample_);
}

}  // namespace slip::cli
