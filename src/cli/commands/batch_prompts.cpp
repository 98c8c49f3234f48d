#include "cli/commands/batch_prompts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "cli/commands/pictures.h"
#include "cli/flags/length_options.h"
#include "cli/terminal/text_input.h"
#include "text/json_slices.h"

namespace slip::cli {
namespace {

using nlohmann::json;

/// `text` is the line as it was written: a template sees the order of its keys.
session::Prompt prompt_of_messages(const json& line, std::string_view text, const session::Model& model,
                                   std::span<const session::Picture> pictures) {
  if (!model.is_chat()) fail_usage("the model's tokenizer has no chat turns; use \"prompt\"");
  const text::Conversation conversation{text::parse_messages(text::member_slice(text, "messages")),
                                        text::parse_tools(text::member_slice(text, "tools"))};
  if (conversation.turns.empty()) fail_usage("\"messages\" is empty");
  std::optional<bool> thinking;
  if (line.contains("think")) {
    if (!line["think"].is_boolean()) fail_usage("\"think\" must be true or false");
    thinking = line["think"].get<bool>();
  }
  return model.prompt(conversation, {.thinking = thinking}, pictures);
}

BatchPrompt read_line(std::string_view text, const std::string& where, const session::Model& model,
                      std::optional<int> image_tokens) {
  const json line = checkpoint::parse_json(text, where);
  const checkpoint::JsonObject fields(line, where);
  BatchPrompt prompt;
  prompt.where = where;
  prompt.max_tokens = static_cast<int>(fields.integer("max_tokens", 1, kMostTokens).value_or(0));
  if (const json* id = fields.find("id")) {
    if (!id->is_string() && !id->is_number()) fail_file("{}: \"id\" must be a text or a number", where);
    prompt.id = *id;
  }
  const auto given = fields.text("prompt");
  if (given.has_value() == fields.has("messages"))
    fail_file("{}: must have either \"prompt\" or \"messages\"", where);
  try {
    const auto pictures =
        look_at(model, fields.texts("images").value_or(std::vector<std::string>{}), image_tokens);
    prompt.picture_tokens = most_tokens_of(pictures);
    prompt.prompt = given ? model.raw(raw_with_pictures(*given, pictures.size()), {}, pictures)
                          : prompt_of_messages(line, text, model, pictures);
  } catch (const Error& error) {
    fail_file("{}: {}", where, error.what());
  }
  return prompt;
}

}  // namespace

std::vector<BatchPrompt> parse_prompts(std::string_view text, const std::string& name,
                                       const session::Model& model, std::optional<int> image_tokens) {
  std::vector<BatchPrompt> prompts;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    prompts.push_back(read_line(line, fmt::format("{} line {}", name, number), model, image_tokens));
    if (prompts.back().id.is_null()) prompts.back().id = number;
  }
  if (prompts.empty()) fail_file("{}: there is no prompt in it; give one JSON object per line", name);
  return prompts;
}

std::vector<BatchPrompt> read_prompts(const std::string& file, const session::Model& model,
                                      std::optional<int> image_tokens) {
  const std::string text = read_text({{}, file}, "--prompts FILE");
  return parse_prompts(text, file == "-" ? "the standard input" : file, model, image_tokens);
}

}  // namespace slip::cli
