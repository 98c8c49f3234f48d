#include "cli/app.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/terminal/closest.h"
#include "cli/terminal/output.h"
#include "session/build_info.h"

namespace slip::cli {
namespace {

[[noreturn]] void fail_unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  std::string guess = did_you_mean(word, names);
  if (guess.empty()) guess = "; run 'slipstream' without arguments to see the commands";
  fail_usage("there is no command '{}'{}", word, guess);
}

int dispatch(const std::vector<std::string>& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    write_out(overview());
    return kExitOk;
  }
  if (args[0] == "--version") {
    write_out(fmt::format("slipstream {}\n", session::build_version()));
    return kExitOk;
  }
  // `slipstream help generate` is what people try before `generate --help`.
  if (args[0] == "help") return args.size() == 1 ? dispatch({}) : dispatch({args[1], "--help"});
  const Command* command = find_command(args[0]);
  if (command == nullptr) fail_unknown_command(args[0]);
  return command->run({args.begin() + 1, args.end()});
}

int report(int code, const char* sentence) {
  std::fflush(stdout);
  fmt::print(stderr, "slipstream: {}\n", sentence);
  return code;
}

}  // namespace

std::string overview() {
  std::string text =
      "slipstream runs Google's Gemma 4 models.\n\n"
      "Usage: slipstream COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  }
  text +=
      "\n'slipstream COMMAND --help' explains a command; 'slipstream --version' prints the version.\n\n"
      "A small demonstration model comes with it and is used when none is named:\n"
      "  slipstream generate -p 'Tell me a story about a fox and a lantern.'\n"
      "  slipstream chat\n\n"
      "A model made of random numbers has the size and speed of a real one:\n"
      "  slipstream synth --shape tiny-e2b /tmp/tiny\n"
      "  slipstream inspect /tmp/tiny\n"
      "  slipstream generate -m /tmp/tiny --ids -p '2 10 20 30' -n 16\n\n"
      "Exit codes: 0 done, 1 wrong usage, 2 bad file, 3 out of memory, 4 other failure, 130 interrupted.\n";
  return text;
}

int run_app(const std::vector<std::string>& args) {
  // A reader that went away ends us quietly, whatever the parent process does with this signal.
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return dispatch(args);
  } catch (const Interrupted& interrupted) {
    return report(kExitInterrupted, interrupted.what());
  } catch (const Error& error) {
    return report(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorKind::kOutOfMemory, "").exit_code(),
                  "out of memory; close other programs, or use a smaller model or context (-c)");
  } catch (const std::exception& error) {
    return report(Error(ErrorKind::kRuntime, "").exit_code(), error.what());
  }
}

}  // namespace slip::cli
