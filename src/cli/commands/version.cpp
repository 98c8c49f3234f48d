// version: what was built, from what, and what this machine offers it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/command.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"
#include "session/build_info.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

std::string memory_text(const session::MemoryInfo& memory) {
  return fmt::format("{}, {} available", bytes_text(memory.total), bytes_text(memory.available));
}

int run_version(const Arguments& args) {
  bool json = false;
  Parser parser(version_command, "[--json]");
  parser.flag("--json", json, "print one JSON object");
  if (!parser.parse(args)) return kExitOk;

  const session::CpuInfo cpu = session::cpu_info();
  const session::MemoryInfo memory = session::memory_info();
  if (json) {
    const nlohmann::ordered_json out = {
        {"version", session::build_version()},
        {"commit", session::build_commit()},
        {"compiler", session::build_compiler()},
        {"build", session::build_type()},
        {"cpu", cpu.name},
        {"threads", cpu.threads},
        {"features", cpu.features},
        {"simd", session::simd_target()},
        {"memory_bytes", memory.total},
        {"memory_available_bytes", memory.available},
    };
    write_out(out.dump(2) + "\n");
    return kExitOk;
  }
  const std::string commit =
      session::build_commit().empty() ? "" : fmt::format(" ({})", session::build_commit());
  write_out(fmt::format(
      "slipstream {}{}\n"
      "build     {}, {}\n"
      "cpu       {}, {} threads\n"
      "features  {}\n"
      "simd      {}\n"
      "memory    {}\n",
      session::build_version(), commit, session::build_type(), session::build_compiler(), cpu.name,
      cpu.threads, fmt::join(cpu.features, ", "), session::simd_target(), memory_text(memory)));
  return kExitOk;
}

}  // namespace

const Command version_command{"version", "Print the version, how it was built and what this processor offers",
                              run_version};

}  // namespace slip::cli
