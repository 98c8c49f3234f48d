// The files that hold a model's weights, by its index (model.safetensors.index.json), and the names of the
// files that every model has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slip::hub {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// The shards, each once, sorted. Throws Error(kBadFile) naming `file` when the text is no index, or names a
/// file outside its folder.
std::vector<std::string> parse_weight_index(std::string_view text, const std::string& file);
std::vector<std::string> read_weight_index(const std::string& path);

}  // namespace slip::hub
