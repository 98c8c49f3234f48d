#include "media/worker_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "media/refused.h"
#include "media/worker.h"

namespace slip::media {
namespace {

constexpr const char* kName = "slipstream-media-worker";
constexpr const char* kThisProgram = "/proc/self/exe";

/// The folder of the file this code was loaded from: a shared library, or the program it is linked into.
std::filesystem::path own_folder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink(kThisProgram, error);
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&installed_worker), &info) != 0;
  // A program may be called by any name, which need not lead to it; a library's path is whole.
  if (!known || info.dli_fname == nullptr || info.dli_fname[0] != '/') return program.parent_path();
  const std::filesystem::path loaded = std::filesystem::canonical(info.dli_fname, error);
  return error ? program.parent_path() : loaded.parent_path();
}

bool can_run(const std::filesystem::path& program) {
  return ::access(program.c_str(), X_OK) == 0;
}

}  // namespace

WorkerCommand this_program() {
  return {.program = kThisProgram, .arguments = {kWorkerFlag}};
}

WorkerCommand installed_worker() {
  const std::filesystem::path folder = own_folder();
  for (const char* place : {"", "../libexec/slipstream", "../../libexec/slipstream", ".."}) {
    const std::filesystem::path program = folder / place / kName;
    if (can_run(program)) return {.program = program.string()};
  }
#ifdef SLIP_INSTALLED_WORKERS
  const std::filesystem::path program = std::filesystem::path(SLIP_INSTALLED_WORKERS) / kName;
  if (can_run(program)) return {.program = program.string()};
#endif
  throw Refused({.fault = Fault::kNoWorker}, "pictures");
}

}  // namespace slip::media
