// Golden cases: folders with a small checkpoint (or a tokenizer, or conversations) and what another
// implementation computed with it. These functions run one and say, check by check, how far this build is
// from it. `verify` prints the table; the tests require it to pass. docs/cli.md describes the layout of the
// folders.
#pragma once

#include <string>
#include <vector>

#include "media/worker_program.h"
#include "session/options.h"

namespace slip::conformance {

struct Check {
  enum class Result { kPass, kFail, kSkipped };
  std::string name;
  double worst = 0;     // the error found
  double bound = 0;     // what it may be
  std::string measure;  // what the two numbers are: "max |error|", "relative L2", "wrong of 97"
  Result result = Result::kSkipped;
  std::string note;  // why it was skipped, or what went wrong
};

struct VerifyOptions {
  session::BackendOptions backend = {.device = session::DeviceKind::kCpu};  // the CPU, or a GPU
  media::WorkerCommand media_worker = {};                                   // decodes pictures
  bool on_cpu() const { return backend.device == session::DeviceKind::kCpu; }
};

/// Takes a model case (expected.json beside target/; of text, of pictures, or of both), a tokenizer case (cases.json beside tokenizer.json) or
/// a chat case (cases.json alone). Throws Error(kBadFile) when the folder is none or cannot be read.
std::vector<Check> verify_case(const std::string& folder, const VerifyOptions& options);

}  // namespace slip::conformance
