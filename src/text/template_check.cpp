#include "text/template_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/call_parser.h"
#include "text/prompt.h"
#include "text/tool_syntax.h"

namespace slip::text {
namespace {

using nlohmann::json;
using Verdict = CheckResult::Verdict;

constexpr auto kMarks = std::to_array<std::string_view>(
    {mark::kBos, mark::kEos, mark::kTurn, mark::kTurnEnd, mark::kThink, mark::kChannel, mark::kChannelEnd,
     mark::kTool, mark::kToolEnd, mark::kToolCall, mark::kToolCallEnd, mark::kToolResponse,
     mark::kToolResponseEnd, mark::kQuote, mark::kImage, mark::kAudio, mark::kVideo});

/// The origin of bytes [begin, end): the template's only if all of them are.
bool is_of_template(const Rendered& prompt, size_t begin, size_t end) {
  size_t from = 0;
  for (const Rendered::Span& span : prompt.spans) {
    if (span.origin == Origin::kForeign && span.end > begin && from < end) return false;
    from = span.end;
  }
  return true;
}

/// How many control tokens the template itself wrote.
size_t count_controls(const Rendered& prompt) {
  size_t count = 0;
  for (const std::string_view token : kMarks) {
    for (size_t at = prompt.bytes.find(token); at != std::string::npos;
         at = prompt.bytes.find(token, at + 1)) {
      count += is_of_template(prompt, at, at + token.size());
    }
  }
  return count;
}

Turn user(std::string text) {
  return {.role = Role::kUser, .text = std::move(text)};
}
Turn assistant(std::string text) {
  return {.role = Role::kAssistant, .text = std::move(text)};
}
Turn answer(std::string text) {
  return {.role = Role::kTool, .text = std::move(text), .call_id = "1", .name = "find_place"};
}
Turn caller(json arguments, std::string reasoning = {}) {
  Turn turn{.role = Role::kAssistant, .reasoning = std::move(reasoning)};
  turn.calls.push_back({"1", "find_place", std::move(arguments)});
  return turn;
}
Tool find_place(std::string description) {
  return {.name = "find_place",
          .description = "Looks a place up.",
          .parameters = {
              {"type", "object"},
              {"properties", {{"name", {{"type", "string"}, {"description", std::move(description)}}}}}}};
}

struct Place {
  std::string_view name;
  Conversation (*with)(const std::string& text);
};

// Everywhere that a caller's text can get into a prompt.
constexpr auto kPlaces = std::to_array<Place>({
    {"a system text",
     [](const std::string& text) {
       return Conversation{{{.role = Role::kSystem, .text = text}, user("Hello")}};
     }},
    {"a user's text", [](const std::string& text) { return Conversation{{user(text)}}; }},
    {"an assistant's text",
     [](const std::string& text) {
       return Conversation{{user("Hello"), assistant(text), user("Go on")}};
     }},
    {"an argument of a call",
     [](const std::string& text) {
       return Conversation{{user("Hello"), caller({{"name", text}}), answer("found")},
                           {find_place("A name.")}};
     }},
    {"a tool's answer",
     [](const std::string& text) {
       return Conversation{{user("Hello"), caller({{"name", "x"}}), answer(text)}, {find_place("A name.")}};
     }},
    {"a description in a schema",
     [](const std::string& text) {
       return Conversation{{user("Hello")}, {find_place(text)}};
     }},
});

void check_control_tokens(const jinja::Template& chat_template, const ChatRenderOptions& options,
                          std::vector<CheckResult>& results) {
  for (const Place& place : kPlaces) {
    std::string cut;
    std::string changed;
    try {
      const size_t usual = count_controls(render_chat(chat_template, place.with("zq0qz zq1qz"), options));
      for (const std::string_view token : kMarks) {
        const std::string text = fmt::format("zq0qz {} zq1qz", token);
        const Rendered prompt = render_chat(chat_template, place.with(text), options);
        if (prompt.bytes.find(text) == std::string::npos)
          cut += fmt::format("{}{}", cut.empty() ? "" : " ", token);
        if (count_controls(prompt) != usual)
          changed += fmt::format("{}{}", changed.empty() ? "" : " ", token);
      }
    } catch (const Error& error) {
      results.push_back({"control tokens", Verdict::kNote, fmt::format("{}: {}", place.name, error.what())});
      continue;
    }
    if (!changed.empty()) {
      results.push_back({"control tokens", Verdict::kFail,
                         fmt::format("{} that spells {} makes the template write other control tokens",
                                     place.name, changed)});
    }
    if (!cut.empty()) {
      results.push_back(
          {"control tokens", Verdict::kNote,
           fmt::format("{} that spells {} does not reach the model whole: the template cuts there",
                       place.name, cut)});
    }
    if (changed.empty() && cut.empty()) {
      results.push_back({"control tokens", Verdict::kPass, fmt::format("{} stays text", place.name)});
    }
  }
}

std::string excerpt(std::string_view text, size_t at) {
  constexpr size_t kShown = 40;
  // Not cut inside a character.
  size_t end = std::min(text.size(), at + kShown);
  while (end < text.size() && end > at && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return std::string(text.substr(std::min(at, text.size()), end - std::min(at, end)));
}

Conversation plain_conversation() {
  return {{user("What is a fjord?"), assistant("A narrow inlet."), user("And a fell?"), assistant("A hill."),
           user("Thanks.")}};
}

Conversation tool_conversation(bool with_thoughts) {
  const std::string thought = with_thoughts ? "I should look it up." : "";
  return {{user("Where is Oslo?"), caller({{"name", "Oslo"}, {"Exact", true}, {"limit", 2}}, thought),
           answer("Norway"), caller({{"name", "Norway"}}, thought), answer("Europe"), assistant("In Norway."),
           user("Thanks."), assistant("You are welcome."), user("Bye.")},
          {find_place("A name.")}};
}

void check_prefix(const jinja::Template& chat_template, ChatRenderOptions options, bool thinking,
                  std::vector<CheckResult>& results) {
  options.thinking = thinking;
  const std::pair<std::string_view, Conversation> kinds[] = {
      {"a plain conversation", plain_conversation()}, {"a chain of tool calls", tool_conversation(thinking)}};
  for (const auto& [name, conversation] : kinds) {
    const std::string_view mode = thinking ? "on" : "off";
    try {
      const auto breaks = find_prefix_breaks(chat_template, conversation, options);
      if (breaks.empty()) {
        results.push_back(
            {"prefix", Verdict::kPass,
             fmt::format("{}, thinking {}: each prompt begins with the one before and its reply", name,
                         mode)});
      }
      for (const PrefixBreak& found : breaks) {
        results.push_back(
            {"prefix", Verdict::kNote,
             fmt::format(
                 "{}, thinking {}: after turn {} the next prompt differs at byte {} ({} instead of {}); a "
                 "prefix cache computes {} bytes again",
                 name, mode, found.turn, found.at, json(found.found).dump(), json(found.expected).dump(),
                 found.lost)});
      }
    } catch (const Error& error) {
      results.push_back(
          {"prefix", Verdict::kFail, fmt::format("{}, thinking {}: {}", name, mode, error.what())});
    }
  }
}

void check_tools(const jinja::Template& chat_template, const ChatRenderOptions& options,
                 std::vector<CheckResult>& results) {
  const json arguments = {
      {"name", "a \"b\" {c}: d,\ne"},  {"limit", 2}, {"share", 2.5}, {"exact", true}, {"tags", {"x", "y", 3}},
      {"where", {{"a", {{"b", "c"}}}}}};
  const Conversation conversation{{user("Hello"), caller(arguments), answer("found it, twice")},
                                  {find_place("A name.")}};
  try {
    const Rendered prompt = render_chat(chat_template, conversation, options);
    const auto report = [&](bool good, std::string_view what, std::string_view instead) {
      results.push_back(
          {"tools", good ? Verdict::kPass : Verdict::kFail, std::string(good ? what : instead)});
    };
    report(prompt.bytes.find("Looks a place up.") != std::string::npos, "a declaration reaches the model",
           "tools are not declared: the model does not learn of them");
    report(prompt.bytes.find("found it, twice") != std::string::npos, "an answer reaches the model",
           "a tool's answer does not reach the model");
    const size_t begin = prompt.bytes.find(mark::kToolCall);
    const size_t end = prompt.bytes.find(mark::kToolCallEnd, begin);
    if (begin == std::string::npos || end == std::string::npos) {
      results.push_back({"tools", Verdict::kFail, "calls are not written in Gemma's syntax"});
      return;
    }
    const size_t from = begin + mark::kToolCall.size();
    const std::string text = prompt.bytes.substr(from, end - from);
    std::vector<size_t> quotes;
    for (size_t at = text.find(mark::kQuote); at != std::string::npos; at = text.find(mark::kQuote, at + 1)) {
      if (is_of_template(prompt, from + at, from + at + mark::kQuote.size())) quotes.push_back(at);
    }
    const auto parsed = parse_call(text, quotes);
    report(parsed && parsed->name == "find_place" && parsed->arguments == arguments,
           "a call reads back with the arguments it was made with",
           "a call does not read back with the arguments it was made with");
  } catch (const Error& error) {
    results.push_back({"tools", Verdict::kFail, error.what()});
  }
}

void check_thinking(const jinja::Template& chat_template, ChatRenderOptions options,
                    std::vector<CheckResult>& results) {
  const Conversation hello{{user("Hello")}};
  try {
    options.thinking = true;
    const std::string on = render_chat(chat_template, hello, options).bytes;
    options.thinking = false;
    const std::string off = render_chat(chat_template, hello, options).bytes;
    options.thinking = std::nullopt;
    const std::string open = render_chat(chat_template, hello, options).bytes;
    if (on == off) {
      results.push_back({"thinking", Verdict::kNote, "enable_thinking changes nothing"});
      return;
    }
    const bool marked =
        on.find(mark::kThink) != std::string::npos && off.find(mark::kThink) == std::string::npos;
    results.push_back({"thinking", marked ? Verdict::kPass : Verdict::kNote,
                       marked ? "enable_thinking asks for a thought" : "enable_thinking changes the prompt"});
    const std::string empty = fmt::format("{}thought\n{}", mark::kChannel, mark::kChannelEnd);
    results.push_back({"thinking", Verdict::kPass,
                       off.ends_with(empty) ? "without thinking the prompt ends with an empty thought"
                                            : "without thinking the prompt ends with the model's open turn"});
    results.push_back({"thinking", Verdict::kPass,
                       open == off  ? "a request that does not say gets no thinking"
                       : open == on ? "a request that does not say gets thinking"
                                    : "a request that does not say gets a prompt of its own"});
  } catch (const Error& error) {
    results.push_back({"thinking", Verdict::kFail, error.what()});
  }
}

}  // namespace

std::string reply_text(const Turn& turn, bool with_thought) {
  PromptWriter out;
  if (with_thought && !turn.reasoning.empty()) {
    out.control(mark::kChannel);
    out.text("thought\n" + turn.reasoning + "\n");
    out.control(mark::kChannelEnd);
  }
  out.text(turn.text);
  for (const ToolCall& call : turn.calls) write_call(call, out);
  out.control(turn.calls.empty() ? mark::kTurnEnd : mark::kToolResponse);
  return joined(out.take());
}

std::vector<PrefixBreak> find_prefix_breaks(const jinja::Template& chat_template,
                                            const Conversation& conversation,
                                            const ChatRenderOptions& options) {
  ChatRenderOptions asking = options;
  asking.add_generation_prompt = true;
  const auto prompt_before = [&](size_t turn) {
    Conversation part{
        {conversation.turns.begin(), conversation.turns.begin() + static_cast<std::ptrdiff_t>(turn)},
        conversation.tools};
    return render_chat(chat_template, part, asking).bytes;
  };
  std::vector<size_t> replies;
  for (size_t i = 1; i < conversation.turns.size(); ++i) {
    if (conversation.turns[i].role == Role::kAssistant) replies.push_back(i);
  }
  std::vector<PrefixBreak> breaks;
  for (size_t i = 0; i < replies.size(); ++i) {
    const size_t turn = replies[i];
    const size_t next = i + 1 < replies.size() ? replies[i + 1] : conversation.turns.size();
    if (next == turn + 1) continue;  // nobody has asked anything in between
    const std::string prompt = prompt_before(turn);
    std::string reply = reply_text(conversation.turns[turn], options.thinking.value_or(false));
    // Some templates open the thought themselves.
    const std::string opener = fmt::format("{}thought\n", mark::kChannel);
    if (prompt.ends_with(opener) && reply.starts_with(opener)) reply.erase(0, opener.size());
    const std::string expected = prompt + reply;
    const std::string found = prompt_before(next);
    const auto differs = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
    if (differs.first == expected.end()) continue;
    const auto at = static_cast<size_t>(differs.first - expected.begin());
    breaks.push_back({turn, at, expected.size() - at, excerpt(expected, at), excerpt(found, at)});
  }
  return breaks;
}

std::vector<CheckResult> check_template(const jinja::Template& chat_template,
                                        const ChatRenderOptions& options) {
  std::vector<CheckResult> results;
  check_control_tokens(chat_template, options, results);
  check_prefix(chat_template, options, false, results);
  check_prefix(chat_template, options, true, results);
  check_tools(chat_template, options, results);
  check_thinking(chat_template, options, results);
  return results;
}

}  // namespace slip::text
