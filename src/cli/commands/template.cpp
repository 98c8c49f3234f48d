// template: tries a chat template: what it makes of a context, and what it does to prompts.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"
#include "cli/commands/command.h"
#include "cli/flags/model_options.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"
#include "cli/terminal/text_input.h"
#include "session/model.h"
#include "text/jinja/template.h"
#include "text/json_slices.h"
#include "text/template_check.h"

namespace slip::cli {
namespace {

namespace jinja = text::jinja;
using nlohmann::ordered_json;

constexpr const char* kHelp =
    "Render a chat template, or check what it does to prompts.\n\n"
    "Usage: slipstream template render TEMPLATE.jinja [--now TIME] < context.json\n"
    "       slipstream template check [MODEL] [--chat-template FILE] [--conversations FILE] [--json]\n";

/// A template's error as it is told: jinja2's class first.
int report(const jinja::TemplateError& error) {
  write_err(fmt::format("{}: {}\n", error.type(), error.what()));
  return error.exit_code();
}

int run_render(const Arguments& args) {
  std::vector<std::string> words;
  std::string now;
  Parser parser(template_command, "render TEMPLATE.jinja [--now TIME] < context.json");
  parser.words({"", "TEMPLATE", "the file; its context, one JSON object, comes from the standard input"},
               words, 1, 1);
  parser.text({"--now", "TIME", "what strftime_now() reports: 2026-11-19T12:34:56 (default: now)"}, now);
  if (!parser.parse(args)) return kExitOk;
  const jinja::Moment moment =
      now.empty() ? std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())
                  : jinja::parse_moment(now);
  const std::string source = read_text_file(words[0], jinja::Template::kLongestSource + 1);
  const std::string context =
      read_text({.given = std::nullopt, .file = "-"}, "a context on the standard input");
  try {
    write_out(jinja::render_json(source, words[0], context, {.now = moment}).bytes);
  } catch (const jinja::TemplateError& error) {
    return report(error);
  }
  return kExitOk;
}

const char* name_of(text::CheckResult::Verdict verdict) {
  switch (verdict) {
    case text::CheckResult::Verdict::kPass: return "pass";
    case text::CheckResult::Verdict::kNote: return "note";
    case text::CheckResult::Verdict::kFail: return "FAIL";
  }
  return "?";
}

/// A file of conversations, a list of {"messages", "tools", "enable_thinking"}: where its prefixes break.
std::vector<text::CheckResult> check_conversations(const text::jinja::Template& chat_template,
                                                   const std::string& file,
                                                   const text::Tokenizer& tokenizer) {
  constexpr size_t kLargest = size_t{256} << 20;
  const std::string text = read_text_file(file, kLargest);
  const nlohmann::json list = checkpoint::parse_json(text, file);
  if (!list.is_array()) fail_file("{}: must be a list of objects with \"messages\"", file);
  const std::vector<std::string_view> slices = text::item_slices(text);
  std::vector<text::CheckResult> results;
  for (size_t i = 0; i < list.size(); ++i) {
    const checkpoint::JsonObject fields(list[i], fmt::format("{}[{}]", file, i));
    const bool thinking = fields.boolean("enable_thinking").value_or(false);
    const std::string name = fmt::format("conversation {}, thinking {}", i, thinking ? "on" : "off");
    std::vector<text::CheckResult> found;
    try {
      const text::Conversation conversation{text::parse_messages(text::member_slice(slices[i], "messages")),
                                            text::parse_tools(text::member_slice(slices[i], "tools"))};
      found = text::check_prefixes(chat_template, conversation, {.thinking = thinking}, name, &tokenizer);
    } catch (const Error& error) {
      found = {{"prefix", text::CheckResult::Verdict::kFail, fmt::format("{}: {}", name, error.what())}};
    }
    results.insert(results.end(), found.begin(), found.end());
  }
  return results;
}

int run_check(const Arguments& args) {
  std::vector<std::string> words;
  std::string chat_template, conversations;
  bool json = false;
  Parser parser(template_command, "check [MODEL] [--chat-template FILE] [--conversations FILE] [--json]");
  parser.words({"", "MODEL", "folder, or name in the Hugging Face cache (default: models/tiny)"}, words, 0,
               1);
  parser.text({"--chat-template", "FILE", "a Jinja template in place of the model's own"}, chat_template);
  parser.text({"--conversations", "FILE",
               "look for broken prefixes in these, a JSON list of {\"messages\", \"tools\"}"},
              conversations);
  parser.flag("--json", json, "print a list of JSON objects");
  if (!parser.parse(args)) return kExitOk;
  const auto model = session::Model::open(words.empty() ? "" : words[0], {.chat_template = chat_template});
  const session::ChatStyle& style = model->chat_style();
  if (!style.fault.empty()) fail_file("{}", style.fault);
  if (style.own == nullptr)
    fail_file("{}: ships no chat template, so its prompts are rendered natively", model->checkpoint().path);
  const auto results = conversations.empty()
                           ? text::check_template(*style.own, {}, &model->tokenizer())
                           : check_conversations(*style.own, conversations, model->tokenizer());
  ordered_json list = ordered_json::array();
  std::string lines = fmt::format("{}\n", style.own->name());
  bool failed = false;
  for (const text::CheckResult& result : results) {
    failed |= result.verdict == text::CheckResult::Verdict::kFail;
    lines += fmt::format("{:4}  {:14}  {}\n", name_of(result.verdict), result.check, result.finding);
    list.push_back(
        {{"check", result.check}, {"verdict", name_of(result.verdict)}, {"finding", result.finding}});
  }
  write_out(json ? list.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n" : lines);
  return failed ? 4 : kExitOk;
}

int run_template(const Arguments& args) {
  const std::string verb = args.empty() ? "" : args[0];
  if (verb == "--help" || verb == "-h") {
    write_out(kHelp);
    return kExitOk;
  }
  const Arguments rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (verb == "render") return run_render(rest);
  if (verb == "check") return run_check(rest);
  fail_usage("template is followed by render or check, not '{}'; see 'slipstream template --help'",
             escaped(verb));
}

}  // namespace

const Command template_command{"template", "Render a chat template, or check what it does to prompts",
                               run_template};

}  // namespace slip::cli
