// Which program decodes pictures, and how it is started. `slipstream` is its own worker. A library must never
// start the program it is linked into: that may be anything, and would do it again.
#pragma once

#include <string>
#include <vector>

namespace slip::media {

struct WorkerCommand {
  std::string program{};  // a path; empty stands for installed_worker()
  std::vector<std::string> arguments{};
};

/// This very program, which must then call run_worker() for kWorkerFlag. For `slipstream` alone.
WorkerCommand this_program();

/// The program slipstream-media-worker: beside the library (or the program it is linked into), in
/// libexec/slipstream next to that folder, or where this build installs it. Throws Refused(kNoWorker) when it
/// is in none of them.
WorkerCommand installed_worker();

}  // namespace slip::media
