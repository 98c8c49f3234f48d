#include "text/prefix_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/prompt.h"
#include "text/tool_syntax.h"

namespace slip::text {
namespace {

std::string excerpt(std::string_view text, size_t at) {
  constexpr size_t kShown = 40;
  // Not cut inside a character.
  size_t end = std::min(text.size(), at + kShown);
  while (end < text.size() && end > at && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return std::string(text.substr(std::min(at, text.size()), end - std::min(at, end)));
}

/// The part of a reply that the prompt has not written already: some templates open the thought themselves.
Rendered reply_behind(const Rendered& prompt, const Turn& turn, bool with_thought, std::string_view null) {
  if (!prompt.bytes.ends_with(fmt::format("{}thought\n", mark::kChannel)))
    return reply_of(turn, with_thought, null);
  const Rendered rest = reply_of(turn, false, null);
  Rendered shorter;
  if (!turn.reasoning.empty()) shorter.append(turn.reasoning + "\n", Origin::kForeign);
  shorter.append(mark::kChannelEnd, Origin::kTemplate);
  size_t begin = 0;
  for (const Rendered::Span& span : rest.spans) {
    shorter.append(std::string_view(rest.bytes).substr(begin, span.end - begin), span.origin);
    begin = span.end;
  }
  return shorter;
}

/// Compares in bytes; sets at and lost. False when nothing differs.
bool differs_in_bytes(const std::string& expected, const std::string& found, PrefixBreak& result) {
  const auto place = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first;
  result.at = static_cast<size_t>(place - expected.begin());
  result.lost = expected.size() - result.at;
  return result.lost > 0;
}

bool differs_in_tokens(const Tokenizer& tokenizer, const Rendered& prompt, const Rendered& reply,
                       const Rendered& next, PrefixBreak& result) {
  std::vector<int> expected = encode(tokenizer, prompt);
  const std::vector<int> written = encode(tokenizer, reply);
  expected.insert(expected.end(), written.begin(), written.end());
  const std::vector<int> found = encode(tokenizer, next);
  const auto place = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first;
  result.lost_tokens = static_cast<size_t>(expected.end() - place);
  if (result.lost_tokens == 0) return false;
  // The same bytes may be cut into other tokens.
  if (!differs_in_bytes(prompt.bytes + reply.bytes, next.bytes, result)) {
    result.lost = tokenizer.decode({place, expected.end()}).size();
    result.at = prompt.bytes.size() + reply.bytes.size() - result.lost;
  }
  return true;
}

/// How a template spells a null among arguments.
std::string_view null_of(const PromptMaker& prompt_of) {
  const Turn caller{.role = Role::kAssistant, .calls = {{"1", "f", {{"a", nullptr}}}}};
  const Conversation probe{{{.role = Role::kUser, .text = "x"}, caller}};
  try {
    return prompt_of(probe).bytes.find("{a:null}") == std::string::npos ? "None" : "null";
  } catch (const Error&) {
    return "None";
  }
}

bool is_tool(const Turn& turn) {
  return turn.role == Role::kTool;
}

}  // namespace

Rendered reply_of(const Turn& turn, bool with_thought, std::string_view null) {
  PromptWriter out;
  if (with_thought && !turn.reasoning.empty()) {
    out.control(mark::kChannel);
    out.text("thought\n" + turn.reasoning + "\n");
    out.control(mark::kChannelEnd);
  }
  out.text(turn.text);
  for (const ContentPart& part : turn.parts) out.text(part.text);
  for (const ToolCall& call : turn.calls) write_call(call, out, null);
  out.control(turn.calls.empty() ? mark::kTurnEnd : mark::kToolResponse);
  Rendered reply;
  for (const PromptPart& part : out.take())
    reply.append(part.text, part.is_control ? Origin::kTemplate : Origin::kForeign);
  return reply;
}

std::vector<PrefixBreak> find_prefix_breaks(const PromptMaker& prompt_of, const Conversation& conversation,
                                            bool with_thoughts, const Tokenizer* tokenizer) {
  const std::vector<Turn>& turns = conversation.turns;
  const auto prompt_before = [&](size_t turn) {
    return prompt_of(
        {{turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(turn)}, conversation.tools});
  };
  std::vector<size_t> replies;
  for (size_t i = 1; i < turns.size(); ++i) {
    if (turns[i].role == Role::kAssistant) replies.push_back(i);
  }
  const std::string_view null = null_of(prompt_of);
  std::vector<PrefixBreak> breaks;
  for (size_t i = 0; i < replies.size(); ++i) {
    const size_t turn = replies[i];
    const size_t next = i + 1 < replies.size() ? replies[i + 1] : turns.size();
    if (next == turn + 1) continue;  // nobody has asked anything in between
    const Rendered prompt = prompt_before(turn);
    const Rendered reply = reply_behind(prompt, turns[turn], with_thoughts, null);
    const Rendered found = prompt_before(next);
    const auto first = turns.begin() + static_cast<std::ptrdiff_t>(turn) + 1;
    const auto last = turns.begin() + static_cast<std::ptrdiff_t>(next);
    PrefixBreak result{.turn = turn,
                       .in_chain = !turns[turn].calls.empty() && std::all_of(first, last, is_tool)};
    const std::string expected = prompt.bytes + reply.bytes;
    const bool differs = tokenizer != nullptr ? differs_in_tokens(*tokenizer, prompt, reply, found, result)
                                              : differs_in_bytes(expected, found.bytes, result);
    if (!differs) continue;
    result.expected = excerpt(expected, result.at);
    result.found = excerpt(found.bytes, result.at);
    breaks.push_back(std::move(result));
  }
  return breaks;
}

std::vector<PrefixBreak> find_prefix_breaks(const jinja::Template& chat_template,
                                            const Conversation& conversation,
                                            const ChatRenderOptions& options, const Tokenizer* tokenizer) {
  ChatRenderOptions asking = options;
  asking.add_generation_prompt = true;
  const auto prompt_of = [&](const Conversation& part) { return render_chat(chat_template, part, asking); };
  return find_prefix_breaks(prompt_of, conversation, options.thinking.value_or(false), tokenizer);
}

std::string describe(const PrefixBreak& found) {
  const auto quoted = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return fmt::format(
      "after turn {}{} the next prompt differs at byte {} ({} instead of {}); a prefix cache "
      "computes {} again",
      found.turn, found.in_chain ? ", inside a chain of calls," : "", found.at, quoted(found.found),
      quoted(found.expected),
      found.lost_tokens > 0 ? fmt::format("{} tokens", found.lost_tokens)
                            : fmt::format("{} bytes", found.lost));
}

}  // namespace slip::text
