#include "checkpoint/image_processor.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"

namespace slip::checkpoint {
namespace {

constexpr std::array<int, 5> kTrained{70, 140, 280, 560, 1120};

}  // namespace

int parse_soft_tokens(std::string_view text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  const JsonObject top(document, file);
  const JsonObject processor = top.object("image_processor").value_or(top);
  const auto found = processor.integer("max_soft_tokens", 1, kTrained.back());
  if (!found) return kDefaultSoftTokens;
  if (std::find(kTrained.begin(), kTrained.end(), *found) != kTrained.end()) return static_cast<int>(*found);
  fail_file("{}: {} is {}, but a picture of Gemma 4 becomes 70, 140, 280, 560 or 1120 soft tokens", file,
            processor.path_of("max_soft_tokens"), *found);
}

int read_soft_tokens(const std::string& folder) {
  for (const char* name : {"processor_config.json", "preprocessor_config.json"}) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored))
      return parse_soft_tokens(read_text_file(path, kLargestConfig), path);
  }
  return kDefaultSoftTokens;
}

}  // namespace slip::checkpoint
