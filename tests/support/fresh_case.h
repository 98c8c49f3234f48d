// Fresh cases: the models of the golden cases with other random weights, drawn as tools that made the golden
// ones draw them, so that a bound can be tried on cases that nobody has seen.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/mapped_file.h"
#include "base/noise.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace slip::test {

class FreshCase {
 public:
  /// `name`: "e2b", "dense", "moe" or "unified".
  FreshCase(const std::string& name, uint64_t seed) {
    const std::string from = std::string(SLIP_GOLDEN) + "/" + name + "/target/";
    folder_.write("config.json", read_text_file(from + "config.json"));
    folder_.write("model.safetensors", redrawn(read_text_file(from + "model.safetensors"), seed));
    checkpoint = checkpoint::open(folder_ / ".");
    const auto vocab = static_cast<uint64_t>(checkpoint->config.vocab);
    prompt.push_back(2);
    for (uint64_t i = 0; i < 47; ++i)
      prompt.push_back(static_cast<int>(16 + keyed_bits(noise_key(seed, 3), i) % (vocab - 16)));
  }

 private:
  static double normal(uint64_t key, uint64_t i) {
    return std::sqrt(-2 * std::log(keyed_uniform(key, 2 * i))) *
           std::cos(6.283185307179586 * keyed_uniform(key, 2 * i + 1));
  }

  static float value_of(const std::string& name, size_t fan, uint64_t key, uint64_t i) {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (name.ends_with("layer_scalar")) return static_cast<float>(0.6 + 0.4 * keyed_uniform(key, i));
    if (has("norm") || name.ends_with("router.scale") || name.ends_with("per_expert_scale"))
      return static_cast<float>(1 + 0.2 * normal(key, i));
    if (has("embed_tokens.weight") || has("lm_head")) return static_cast<float>(0.25 * normal(key, i));
    return static_cast<float>(1.3 / std::sqrt(static_cast<double>(fan)) * normal(key, i));
  }

  static std::string redrawn(std::string file, uint64_t seed) {
    uint64_t header = 0;
    std::memcpy(&header, file.data(), 8);
    const auto tensors = nlohmann::json::parse(file.substr(8, header));
    uint64_t index = 0;
    for (const auto& [name, tensor] : tensors.items()) {
      if (!tensor.contains("dtype") || tensor["dtype"] != "BF16") continue;
      const auto begin = tensor["data_offsets"][0].get<size_t>(),
                 end = tensor["data_offsets"][1].get<size_t>();
      const size_t fan = tensor["shape"].size() > 1 ? tensor["shape"].back().get<size_t>() : 16;
      const uint64_t key = noise_key(seed, ++index);
      for (size_t at = begin; at < end; at += 2) {
        const float value = round_to_bf16(value_of(name, fan, key, (at - begin) / 2));
        uint32_t bits = 0;
        std::memcpy(&bits, &value, 4);
        const auto half = static_cast<uint16_t>(bits >> 16);
        std::memcpy(file.data() + 8 + header + at, &half, 2);
      }
    }
    return file;
  }

  TempFolder folder_;

 public:
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  std::vector<int> prompt;
};

}  // namespace slip::test
