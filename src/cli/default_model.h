// The demonstration model that comes with Slipstream, for commands that are given none. It is looked for from
// the program's own place, so that neither the working folder nor a path fixed at build time matters.
#pragma once

#include <filesystem>
#include <string>

#include "cli/model_options.h"

namespace slip::cli {

/// How it is called in messages: its place in the repository.
inline constexpr const char* kDefaultModel = "models/tiny";

/// Looks for models/tiny and share/slipstream/models/tiny in the program's folder and the three above it,
/// then in the source tree the program was built from. Empty when it is not there.
std::string find_default_model(const std::filesystem::path& program);

/// Fills in `options` when they name no model, and returns the sentence that says so; empty when one was
/// named. Throws Error(kUsage) when there is none to fill in.
std::string use_default_model(ModelOptions& options);

}  // namespace slip::cli
