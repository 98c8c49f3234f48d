#include "session/chat_style.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"
#include "hub/digest.h"
#include "text/chat_render.h"
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

std::string sha256_of(std::string_view text) {
  hub::Digest digest(hub::Digest::Kind::kSha256, text.size());
  digest.add(std::as_bytes(std::span(text)));
  return digest.finish();
}

/// A template that cannot be parsed is kept as the sentence that says why: a raw prompt still works.
ChatStyle style_of(const std::string& source, const std::string& origin, const std::string& file) {
  ChatStyle style{.empty_thought_block = text::writes_empty_thought(source),
                  .origin = origin,
                  .sha256 = sha256_of(source)};
  try {
    style.own = std::make_shared<const text::jinja::Template>(text::jinja::Template::parse(source, file));
  } catch (const Error& error) {
    style.fault = error.what();
  }
  return style;
}

/// What strftime_now() reports: the time of the place.
text::jinja::Moment local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm there{};
  localtime_r(&now, &there);
  return text::jinja::Moment(std::chrono::seconds(now + there.tm_gmtoff));
}

text::Rendered rendered_natively(const std::vector<text::PromptPart>& parts) {
  text::Rendered rendered;
  for (const text::PromptPart& part : parts)
    rendered.append(part.text, part.is_control ? text::Origin::kTemplate : text::Origin::kForeign);
  return rendered;
}

/// Where the template's own end of the last turn begins; npos when the prompt does not end with one.
size_t last_turn_end(const text::Rendered& prompt) {
  const size_t at = prompt.bytes.rfind(text::mark::kTurnEnd);
  if (at == std::string::npos) return at;
  const size_t behind = at + text::mark::kTurnEnd.size();
  return prompt.bytes.find_first_not_of('\n', behind) == std::string::npos ? at : std::string::npos;
}

void leave_open(text::Rendered& prompt) {
  const size_t end = last_turn_end(prompt);
  if (end == std::string::npos)
    fail_usage("the last message cannot be continued: it must be an assistant's text, and no tool call");
  text::Rendered open;
  size_t begin = 0;
  for (const text::Rendered::Span& span : prompt.spans) {
    const size_t stop = std::min(span.end, end);
    if (stop > begin) open.append(std::string_view(prompt.bytes).substr(begin, stop - begin), span.origin);
    begin = span.end;
  }
  prompt = std::move(open);
}

}  // namespace

text::Rendered ChatStyle::render(const text::Conversation& conversation, const ChatOptions& options) const {
  if (!fault.empty()) fail_file("{}; name another one with --chat-template", fault);
  const bool opens = options.add_generation_prompt && !options.continue_last;
  text::Rendered prompt = own != nullptr ? text::render_chat(*own, conversation,
                                                             {.add_generation_prompt = opens,
                                                              .thinking = options.thinking,
                                                              .now = local_time(),
                                                              .more = options.more})
                                         : rendered_natively(text::render_chat(
                                               conversation, {.empty_thought_block = empty_thought_block,
                                                              .add_generation_prompt = opens,
                                                              .thinking = options.thinking.value_or(false)}));
  if (options.continue_last) leave_open(prompt);
  return prompt;
}

ChatStyle chat_style(const std::string& folder, const model::Config& config, const std::string& file) {
  if (!file.empty()) {
    ChatStyle style = style_of(read_text_file(file, kLargestTemplate), file, file);
    if (!style.fault.empty()) fail_file("{}", style.fault);
    return style;
  }
  const std::string own = folder + "/chat_template.jinja", tokenizer = folder + "/tokenizer_config.json";
  if (const std::string text = text_of(own); !text.empty()) return style_of(text, "chat_template.jinja", own);
  if (const std::string text = template_in(tokenizer); !text.empty())
    return style_of(text, "tokenizer_config.json", tokenizer);
  // The models with per-layer embeddings are E2B and E4B.
  return {.empty_thought_block = config.per_layer_dim == 0, .origin = "the architecture"};
}

std::string describe(const ChatStyle& style) {
  const std::string thought = fmt::format("{} empty thought stands before answers without thinking",
                                          style.empty_thought_block ? "an" : "no");
  if (!style.fault.empty()) return fmt::format("{}, which cannot be used: {}", style.origin, style.fault);
  if (style.own == nullptr)
    return fmt::format("no template is there, so prompts are written natively; {} ({})", thought,
                       style.origin);
  return fmt::format("the template in {} (sha256 {}); {}", style.origin, style.sha256.substr(0, 16), thought);
}

bool has_turns(const text::Tokenizer& tokenizer) {
  return tokenizer.id_of(text::mark::kTurn) && tokenizer.id_of(text::mark::kTurnEnd);
}

}  // namespace slip::session
