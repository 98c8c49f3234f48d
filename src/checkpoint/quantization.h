// Quantization: how the matrices of an MLX checkpoint are packed. MLX writes defaults and per-module
// exceptions into config.json, but many published files contradict them (a "4-bit" repository with 8-bit
// MLPs), so the shapes decide: the model's Config says how many columns a matrix has, and packed and scale
// columns then give bits and group size without a choice. What config.json says serves to refuse modes that
// are not affine, and to explain a misfit.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tensor/stored_tensor.h"

namespace slip::checkpoint {

class JsonObject;

/// What config.json says of one module, or of all that it does not name. 0 = not said.
struct ModuleQuantization {
  bool quantized = true;
  int bits = 0;
  int group = 0;
  std::string mode = "affine";
};

struct Quantization {
  bool present = false;  // config.json has an MLX quantization table
  ModuleQuantization defaults;
  std::map<std::string, ModuleQuantization, std::less<>> modules;

  const ModuleQuantization& of(const std::string& module) const;
};

/// Reads the "quantization" table out of config.json. Throws Error(kBadFile) for schemes slipstream cannot
/// read.
Quantization parse_quantization(const JsonObject& config);

struct Packing {
  int bits = 0;
  int group = 0;
};

/// The packing of a module's tensors whose rows stand for `cols` values. Their leading dimensions must agree
/// already. Throws Error(kBadFile) naming the tensor when no supported packing gives these shapes.
Packing infer_packing(const tensor::StoredTensor& weight, const tensor::StoredTensor& scales, int64_t cols,
                      const ModuleQuantization& said, const std::string& where);

}  // namespace slip::checkpoint
