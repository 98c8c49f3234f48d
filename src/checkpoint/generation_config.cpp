#include "checkpoint/generation_config.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/json_text.h"

namespace slip::checkpoint {

namespace {

constexpr size_t kLargestFile = size_t{16} << 20;
// The smallest share and penalty that a float can still tell from zero in any use.
constexpr double kTiny = 1e-6;

std::vector<int> without_repeats(std::vector<int> ids) {
  std::vector<int> unique;
  for (const int id : ids) {
    if (std::find(unique.begin(), unique.end(), id) == unique.end()) unique.push_back(id);
  }
  return unique;
}

GenerationConfig defaults(const model::Config& config) {
  GenerationConfig generation;
  generation.stop_ids = without_repeats(config.eos_ids);
  return generation;
}

}  // namespace

GenerationConfig parse_generation_config(std::string_view text, const std::string& file,
                                         const model::Config& config) {
  const nlohmann::json document = parse_json(text, file);
  const JsonObject source(document, file);
  GenerationConfig generation = defaults(config);
  generation.do_sample = source.boolean("do_sample").value_or(false);
  generation.temperature = static_cast<float>(source.number("temperature", 0, 100).value_or(1));
  generation.top_k = static_cast<int>(source.integer("top_k", 0, INT32_MAX).value_or(0));
  generation.top_p = static_cast<float>(source.number("top_p", kTiny, 1).value_or(1));
  generation.min_p = static_cast<float>(source.number("min_p", 0, 1).value_or(0));
  generation.repetition_penalty =
      static_cast<float>(source.number("repetition_penalty", kTiny, 100).value_or(1));
  if (const auto stop = source.ids("eos_token_id", config.vocab); stop && !stop->empty()) {
    generation.stop_ids = without_repeats(*stop);
  }
  generation.suppress_ids = source.ids("suppress_tokens", config.vocab).value_or(std::vector<int>{});
  std::sort(generation.suppress_ids.begin(), generation.suppress_ids.end());
  const auto repeats = std::unique(generation.suppress_ids.begin(), generation.suppress_ids.end());
  generation.suppress_ids.erase(repeats, generation.suppress_ids.end());
  return generation;
}

GenerationConfig read_generation_config(const std::string& folder, const model::Config& config) {
  const std::string path = (std::filesystem::path(folder) / "generation_config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return defaults(config);
  return parse_generation_config(read_text_file(path, kLargestFile), path, config);
}

}  // namespace slip::checkpoint
