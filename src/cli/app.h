// The program around the commands: overview, dispatch, and the one place where an exception becomes a line on
// stderr and an exit code. Exit codes: 0 done, 1 wrong usage, 2 bad file, 3 out of memory, 4 anything else,
// 130 interrupted.
#pragma once

#include <string>
#include <vector>

namespace slip::cli {

/// Runs `slipstream ARGS...` and returns its exit code. Never throws.
int run_app(const std::vector<std::string>& args);

/// What `slipstream` without arguments prints.
std::string overview();

}  // namespace slip::cli
