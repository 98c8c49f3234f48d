#include <algorithm>
#include <array>

#include "cli/commands/command.h"

namespace slip::cli {

std::span<const Command> commands() {
#define SLIP_LIST_COMMAND(name) name##_command,
  static const std::array all{SLIP_COMMANDS(SLIP_LIST_COMMAND)};
#undef SLIP_LIST_COMMAND
  return all;
}

const Command* find_command(std::string_view name) {
  const auto all = commands();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace slip::cli
