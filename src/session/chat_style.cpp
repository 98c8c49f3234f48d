#include "session/chat_style.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "checkpoint/json_text.h"
#include "text/chat_template.h"

namespace slip::session {
namespace {

constexpr size_t kLargestTemplate = size_t{16} << 20;

/// Empty when the file is not there.
std::string text_of(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return "";
  return read_text_file(file, kLargestTemplate);
}

/// One template, or a list of named ones of which "default" counts. Empty when there is none.
std::string template_in(const std::string& file) {
  const std::string text = text_of(file);
  if (text.empty()) return "";
  const nlohmann::json config = checkpoint::parse_json(text, file);
  if (!config.is_object() || !config.contains("chat_template")) return "";
  const nlohmann::json& found = config["chat_template"];
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return "";
  for (const nlohmann::json& named : found) {
    if (named.is_object() && named.value("name", nlohmann::json()) == "default" &&
        named.value("template", nlohmann::json()).is_string()) {
      return named["template"].get<std::string>();
    }
  }
  return "";
}

}  // namespace

ChatStyle chat_style(const std::string& folder, const model::Config& config) {
  const std::pair<const char*, std::string> templates[] = {
      {"chat_template.jinja", text_of(folder + "/chat_template.jinja")},
      {"tokenizer_config.json", template_in(folder + "/tokenizer_config.json")}};
  for (const auto& [file, text] : templates) {
    if (text::has_turns(text)) return {text::writes_empty_thought(text), file};
  }
  // The models with per-layer embeddings are E2B and E4B.
  return {config.per_layer_dim == 0, "the architecture"};
}

std::string describe(const ChatStyle& style) {
  return fmt::format("{} empty thought stands before answers without thinking ({})",
                     style.empty_thought_block ? "an" : "no", style.origin);
}

bool has_turns(const text::Tokenizer& tokenizer) {
  return tokenizer.id_of(text::mark::kTurn) && tokenizer.id_of(text::mark::kTurnEnd);
}

}  // namespace slip::session
