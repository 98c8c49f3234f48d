#include "checkpoint/quantization.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/json_text.h"

namespace slip::checkpoint {

namespace {

constexpr std::array kBits{3, 4, 5, 6, 8};
constexpr std::array kGroups{32, 64, 128};

template <size_t N>
bool one_of(const std::array<int, N>& choices, int64_t value) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

ModuleQuantization parse_module(const JsonObject& said, const ModuleQuantization& defaults) {
  ModuleQuantization module = defaults;
  module.quantized = true;
  module.bits = static_cast<int>(said.integer("bits", 1, 32).value_or(defaults.bits));
  module.group = static_cast<int>(said.integer("group_size", 1, 1 << 20).value_or(defaults.group));
  module.mode = said.text("mode").value_or(defaults.mode);
  return module;
}

std::string said_text(const ModuleQuantization& said) {
  if (!said.quantized) return "; config.json says the module is not quantised";
  if (said.bits == 0) return "";
  return fmt::format("; config.json says {} bits in groups of {}", said.bits, said.group);
}

}  // namespace

const ModuleQuantization& Quantization::of(const std::string& module) const {
  const auto at = modules.find(module);
  return at == modules.end() ? defaults : at->second;
}

Quantization parse_quantization(const JsonObject& config) {
  Quantization result;
  auto table = config.object("quantization");
  if (!table) table = config.object("quantization_config");
  if (!table) return result;
  if (const auto method = table->text("quant_method")) {
    fail_file(
        "{}: the weights are quantised with {}, which slipstream cannot read; use the bf16 checkpoint or an "
        "MLX "
        "affine one",
        config.file(), in_quotes(*method));
  }
  result.present = true;
  result.defaults = parse_module(*table, {});
  if (result.defaults.mode != "affine") {
    fail_file("{}: the weights are quantised in MLX mode {}, which slipstream cannot read; use an affine one",
              config.file(), in_quotes(result.defaults.mode));
  }
  for (const std::string& key : table->keys()) {
    const nlohmann::json* value = table->find(key);
    if (value == nullptr) continue;
    if (value->is_object())
      result.modules[key] = parse_module(JsonObject(*value, config.file(), key), result.defaults);
    // `true` asks for the defaults; other plain values are settings of the whole table.
    if (value->is_boolean() && !value->get<bool>()) result.modules[key] = {.quantized = false};
  }
  return result;
}

Packing infer_packing(const tensor::StoredTensor& weight, const tensor::StoredTensor& scales, int64_t cols,
                      const ModuleQuantization& said, const std::string& where) {
  const int64_t packed = weight.shape().back();
  const int64_t groups = scales.shape().back();
  // Both numbers come from a file, where an extent may be anything that its byte count can back.
  const int64_t bits = packed <= cols && packed * 32 % cols == 0 ? packed * 32 / cols : 0;
  const int64_t group = groups > 0 && cols % groups == 0 ? cols / groups : 0;
  if (!one_of(kBits, bits)) {
    fail_file("{}: tensor {} packs {} values into {} words, which is none of 3, 4, 5, 6 or 8 bits each{}",
              where, in_quotes(weight.name()), cols, packed, said_text(said));
  }
  if (!one_of(kGroups, group)) {
    fail_file("{}: tensor {} has {} scales for {} values, which is none of 32, 64 or 128 values each{}",
              where, in_quotes(scales.name()), groups, cols, said_text(said));
  }
  return {static_cast<int>(bits), static_cast<int>(group)};
}

}  // namespace slip::checkpoint
