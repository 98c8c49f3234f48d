#include "server/api/thinking.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "server/api/error.h"

namespace slip::server::api {
namespace {

/// What each word of an effort, a mode or a switch means.
constexpr std::pair<std::string_view, bool> kWords[] = {
    {"none", false}, {"minimal", false}, {"off", false},     {"disabled", false}, {"false", false},
    {"low", true},   {"medium", true},   {"high", true},     {"xhigh", true},     {"max", true},
    {"on", true},    {"enabled", true},  {"adaptive", true}, {"auto", true},      {"true", true}};

struct Spelling {
  const char* object;  // the field that holds it; null: the body itself
  const char* key;
};

// Templates' own switch first, since it is the most exact; then the switches, then the efforts.
constexpr Spelling kSpellings[] = {
    {"chat_template_kwargs", "enable_thinking"},  // Qwen's and Gemma's templates
    {"chat_template_kwargs", "thinking"},         // DeepSeek's and Granite's
    {nullptr, "enable_thinking"},                 // DashScope
    {"thinking", "type"},                         // Anthropic
    {nullptr, "think"},                           // ollama
    {nullptr, "reasoning_effort"},                // OpenAI, chat
    {"reasoning", "effort"},                      // OpenAI, responses
    {"reasoning", "enabled"},                     // OpenRouter
    {"output_config", "effort"},                  // Anthropic
};

bool meaning(const nlohmann::json& value, const std::string& path) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) {
    for (const auto& [word, on] : kWords) {
      if (value.get_ref<const std::string&>() == word) return on;
    }
  }
  fail_field(path, "must be true, false, none, low, medium or high, not {}",
             value.is_string() ? "'" + value.get<std::string>().substr(0, 40) + "'" : kind_text(value));
}

}  // namespace

std::optional<bool> read_thinking(const Fields& body) {
  std::optional<bool> found;
  for (const auto& [object, key] : kSpellings) {
    // All are read, so that a wrong one is refused wherever it stands.
    std::optional<bool> said;
    if (object == nullptr) {
      if (const auto* value = body.find(key)) said = meaning(*value, body.path(key));
    } else if (const auto* value = body.find(object);
               value != nullptr && !value->is_object() && std::string_view(object) == "thinking") {
      said = meaning(*value, body.path(object));  // "thinking": true
    } else if (value != nullptr) {
      const Fields inner(*value, body.path(object));
      if (const auto* switched = inner.find(key)) said = meaning(*switched, inner.path(key));
    }
    if (!found) found = said;
  }
  return found;
}

}  // namespace slip::server::api
