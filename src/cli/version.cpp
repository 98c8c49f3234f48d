// version: what was built, from what, and what this machine offers it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "cli/system_info.h"

namespace slip::cli {
namespace {

std::string memory_text(const MemoryInfo& memory) {
  return fmt::format("{}, {} available", bytes_text(memory.total), bytes_text(memory.available));
}

int run_version(const Arguments& args) {
  bool json = false;
  Parser parser(version_command, "[--json]");
  parser.flag("--json", json, "print one JSON object");
  if (!parser.parse(args)) return kExitOk;

  const CpuInfo cpu = cpu_info();
  const MemoryInfo memory = memory_info();
  if (json) {
    const nlohmann::ordered_json out = {
        {"version", build_version()},
        {"commit", build_commit()},
        {"compiler", build_compiler()},
        {"build", build_type()},
        {"cpu", cpu.name},
        {"threads", cpu.threads},
        {"features", cpu.features},
        {"simd", simd_target()},
        {"memory_bytes", memory.total},
        {"memory_available_bytes", memory.available},
    };
    write_out(out.dump(2) + "\n");
    return kExitOk;
  }
  const std::string commit = build_commit().empty() ? "" : fmt::format(" ({})", build_commit());
  write_out(
      fmt::format("slipstream {}{}\n"
                  "build     {}, {}\n"
                  "cpu       {}, {} threads\n"
                  "features  {}\n"
                  "simd      {}\n"
                  "memory    {}\n",
                  build_version(), commit, build_type(), build_compiler(), cpu.name, cpu.threads,
                  fmt::join(cpu.features, ", "), simd_target(), memory_text(memory)));
  return kExitOk;
}

}  // namespace

const Command version_command{"version", "Print the version, how it was built and what this processor offers",
                              run_version};

}  // namespace slip::cli
