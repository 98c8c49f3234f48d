#include "text/template_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/call_parser.h"
#include "text/prefix_check.h"
#include "text/prompt.h"

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
                  const Tokenizer* tokenizer, std::vector<CheckResult>& results) {
  options.thinking = thinking;
  const std::pair<std::string_view, Conversation> kinds[] = {
      {"a plain conversation", plain_conversation()}, {"a chain of tool calls", tool_conversation(thinking)}};
  for (const auto& [name, conversation] : kinds) {
    const std::string called = fmt::format("{}, thinking {}", name, thinking ? "on" : "off");
    const auto found = check_prefixes(chat_template, conversation, options, called, tokenizer);
    results.insert(results.end(), found.begin(), found.end());
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

std::vector<CheckResult> check_prefixes(const jinja::Template& chat_template,
                                        const Conversation& conversation, const ChatRenderOptions& options,
                                        const std::string& name, const Tokenizer* tokenizer) {
  std::vector<CheckResult> results;
  try {
    for (const PrefixBreak& found : find_prefix_breaks(chat_template, conversation, options, tokenizer)) {
      results.push_back({"prefix", Verdict::kNote, fmt::format("{}: {}", name, describe(found))});
    }
  } catch (const Error& error) {
    results.push_back({"prefix", Verdict::kFail, fmt::format("{}: {}", name, error.what())});
  }
  if (results.empty()) {
    results.push_back({"prefix", Verdict::kPass,
                       fmt::format("{}: each prompt begins with the one before and its reply", name)});
  }
  return results;
}

std::vector<CheckResult> check_template(const jinja::Template& chat_template,
                                        const ChatRenderOptions& options, const Tokenizer* tokenizer) {
  std::vector<CheckResult> results;
  check_control_tokens(chat_template, options, results);
  check_prefix(chat_template, options, false, tokenizer, results);
  check_prefix(chat_template, options, true, tokenizer, results);
  check_tools(chat_template, options, results);
  check_thinking(chat_template, options, results);
  return results;
}

}  // namespace slip::text
