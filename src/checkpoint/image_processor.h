// How many soft tokens a picture becomes by default: what the checkpoint was published with, in
// processor_config.json or preprocessor_config.json. Both may be missing; then it is 280, as in Google's files.
#pragma once

#include <string>
#include <string_view>

namespace slip::checkpoint {

inline constexpr int kDefaultSoftTokens = 280;

/// Throws Error(kBadFile) for a file that is no JSON, or names a number that no Gemma 4 was trained with.
int read_soft_tokens(const std::string& folder);
/// The same of a file's text.
int parse_soft_tokens(std::string_view text, const std::string& file);

}  // namespace slip::checkpoint
