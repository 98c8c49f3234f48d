// Command: one verb of the program. A new one is one file, src/cli/<name>.cpp, that defines `<name>_command`,
// and one name in the list below.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slip::cli {

using Arguments = std::vector<std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;  // one line of the overview, no full stop
  /// Gets what stands after the command's name; returns the exit code. Failures are thrown as slip::Error.
  int (*run)(const Arguments& args);
};

// The commands, in the order of the overview.
#define SLIP_COMMANDS(X) \
  X(generate)            \
  X(chat)                \
  X(serve)               \
  X(launch)              \
  X(pull)                \
  X(list)                \
  X(show)                \
  X(rm)                  \
  X(inspect)             \
  X(tokenize)            \
  X(template)            \
  X(bench)               \
  X(bench_serve)         \
  X(verify)              \
  X(doctor)              \
  X(synth)               \
  X(version)

#define SLIP_DECLARE_COMMAND(name) extern const Command name##_command;
SLIP_COMMANDS(SLIP_DECLARE_COMMAND)
#undef SLIP_DECLARE_COMMAND

std::span<const Command> commands();
/// Null when there is none of this name.
const Command* find_command(std::string_view name);

inline constexpr int kExitOk = 0;
inline constexpr int kExitInterrupted = 130;

/// Ctrl-C ended a command; the words say what is left of its work.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace slip::cli
