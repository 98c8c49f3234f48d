#include "cli/commands/chat_command.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "cli/terminal/closest.h"
#include "cli/terminal/output.h"
#include "text/utf8.h"

namespace slip::cli {
namespace {

using Kind = ChatInput::Kind;

struct Known {
  std::string_view name, argument, help;
  Kind kind;
};

constexpr Known kCommands[] = {
    {"/system", "TEXT", "instructions for the model; alone shows them, /system off removes them",
     Kind::kSystem},
    {"/think", "on|off", "let the model think before it answers", Kind::kThink},
    {"/image", "PATH", "show the model a picture with the next message; may be repeated", Kind::kImage},
    {"/stats", "", "how fast it was, and what speculation brought", Kind::kStats},
    {"/reset", "", "forget the conversation; instructions stay", Kind::kReset},
    {"/help", "", "this list", Kind::kHelp},
    {"/exit", "", "leave; so does Ctrl-D", Kind::kExit},
};

}  // namespace

ChatInput read_input(std::string_view line) {
  line = text::trim(line);
  if (line.empty()) return {};
  if (line.starts_with("//")) return {Kind::kMessage, std::string(line.substr(1))};
  if (!line.starts_with('/')) return {Kind::kMessage, std::string(line)};
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end) == "/quit" ? "/exit" : line.substr(0, end);
  std::vector<std::string> names;
  for (const Known& known : kCommands) {
    if (name != known.name) {
      names.emplace_back(known.name);
      continue;
    }
    std::string argument(text::trim(line.substr(end)));
    if (known.argument.empty() && !argument.empty())
      fail_usage("{} takes nothing behind it, not '{}'", name, escaped(argument));
    return {known.kind, std::move(argument)};
  }
  std::string guess = did_you_mean(name, names);
  if (guess.empty()) guess = "; /help lists them, and // begins a message with a slash";
  fail_usage("there is no command '{}'{}", escaped(name), guess);
}

std::string chat_help() {
  std::string text;
  for (const Known& known : kCommands) {
    text += fmt::format("  {:<15} {}\n", fmt::format("{} {}", known.name, known.argument), known.help);
  }
  return text +
         "Enter sends, Alt-Enter begins a new line, // sends a message that begins with a slash.\n"
         "Ctrl-C stops a reply; on an empty line, twice, it leaves.\n";
}

}  // namespace slip::cli
