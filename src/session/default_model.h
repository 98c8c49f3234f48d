// The demonstration model that comes with Slipstream, for commands that are given none. It is looked for from
// the program's own place, so that neither the working folder nor a path fixed at build time matters.
#pragma once

#include <filesystem>
#include <string>

namespace slip::session {

/// How it is called in messages: its place in the repository.
inline constexpr const char* kDefaultModel = "models/tiny";

/// Looks for models/tiny and share/slipstream/models/tiny in the program's folder and the three above it,
/// then in the source tree the program was built from. Empty when it is not there.
std::string find_default_model(const std::filesystem::path& program);

/// The folder of the demonstration model, from this program's own place. Throws Error(kUsage) when it is not there.
std::string default_model();

}  // namespace slip::session
