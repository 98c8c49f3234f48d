#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/command.h"
#include "cli/flags/backend_options.h"
#include "cli/terminal/output.h"
#include "conformance/golden_case.h"
#include "session/device.h"

namespace slip::cli {

namespace {

using conformance::Check;
using conformance::VerifyOptions;

const char* result_text(Check::Result result) {
  switch (result) {
    case Check::Result::kPass: return "pass";
    case Check::Result::kFail: return "FAIL";
    case Check::Result::kSkipped: return "skipped";
  }
  return "?";
}

void print_table(const std::string& folder, const std::vector<Check>& checks) {
  size_t widest = 5;
  for (const Check& check : checks) widest = std::max(widest, check.name.size());
  write_out(fmt::format("{}\n{:{}}  {:>10}  {:>10}  {:14}  {}\n", folder, "check", widest, "worst", "bound",
                        "measure", "result"));
  for (const Check& check : checks) {
    if (check.result == Check::Result::kSkipped) {
      write_out(fmt::format("{:{}}  {:>10}  {:>10}  {:14}  skipped: {}\n", check.name, widest, "-", "-", "",
                            check.note));
    } else {
      write_out(fmt::format("{:{}}  {:>10.3g}  {:>10.3g}  {:14}  {}\n", check.name, widest, check.worst,
                            check.bound, check.measure, result_text(check.result)));
    }
  }
}

int run_verify(const Arguments& args) {
  std::vector<std::string> folders;
  VerifyOptions options{.media_worker = media::this_program()};
  Parser parser(verify_command, "CASE...");
  parser.words({"CASE", "CASE", "folders of golden cases: of a model, a tokenizer or chats"}, folders, 1,
               1000);
  add_device_option(parser, options.backend, "auto, cpu (default), cuda or cuda:N");
  parser.integer({"-t,--threads", "N", "threads (default: one per core)"}, 1, 1024, options.backend.threads);
  parser.footer("Exit code 0 only if every check passes; skipped checks are those this build cannot do.");
  if (!parser.parse(args)) return kExitOk;
  // What is checked, and how closely, depends on the device.
  if (options.backend.device == session::DeviceKind::kAuto) {
    const bool cuda = session::choose_device(options.backend, 0).cuda;
    options.backend.device = cuda ? session::DeviceKind::kCuda : session::DeviceKind::kCpu;
  }

  int failed = 0, passed = 0, skipped = 0;
  for (const std::string& folder : folders) {
    const auto checks = verify_case(folder, options);
    print_table(folder, checks);
    for (const Check& check : checks) {
      ++(check.result == Check::Result::kPass   ? passed
         : check.result == Check::Result::kFail ? failed
                                                : skipped);
    }
  }
  write_out(fmt::format("{} passed, {} failed, {} skipped\n", passed, failed, skipped));
  return failed == 0 && passed > 0 ? kExitOk : 4;
}

}  // namespace

extern const Command verify_command{
    "verify", "Compare this build with golden results of another implementation", run_verify};

}  // namespace slip::cli
