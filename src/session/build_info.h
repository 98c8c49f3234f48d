// How this program was built: written into one small file so that a new commit recompiles nothing else.
#pragma once

#include <string_view>

namespace slip::session {

/// "0.1.0"
std::string_view build_version();
/// "7c79bcf", with "+" behind it when the tree had changes; empty when built without git.
std::string_view build_commit();
/// "Release"; with the sanitizers when there are any.
std::string_view build_type();
/// "GCC 12.2.0"
std::string_view build_compiler();

}  // namespace slip::session
