// Golden cases: folders with a small checkpoint (or a tokenizer, or conversations) and what another
// implementation computed with it. These functions run one and say, check by check, how far this build is
// from it. `verify` prints the table; the tests require it to pass. docs/cli.md describes the layout of the
// folders.
#pragma once

#include <string>
#include <vector>

namespace slip::cli {

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
  int threads = 0;             // 0 = one per core
  std::string device = "cpu";  // cpu, cuda or cuda:N
  bool on_cpu() const { return device == "cpu"; }
};

/// Takes a model case (expected.json beside target/), a tokenizer case (cases.json beside tokenizer.json) or
/// a chat case (cases.json alone). Throws Error(kBadFile) when the folder is none or cannot be read.
std::vector<Check> verify_case(const std::string& folder, const VerifyOptions& options);

}  // namespace slip::cli
