// Binding: tensor names -> fields of model::Weights. Knows the names of Hugging Face and of MLX, checks every
// shape against the Config, and accounts for every tensor of the set: bound, known and not needed (listed for
// the user), or an error. A text tensor that nothing uses means the Config is wrong, and then the output
// would be too. Cost: the small vectors are read; matrices stay where they are.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/quantization.h"

namespace slip::checkpoint {

struct BindOptions {
  std::string where;  // the folder or file, for messages
  Quantization quantization;
  bool tied_head = true;
};

struct Bound {
  model::Weights weights;  // points into the TensorSet, which must outlive it
  std::vector<NotLoaded> not_loaded;
  std::string format;
};

/// Throws Error(kBadFile) naming the tensor, its shape and the shape it should have.
Bound bind(const TensorSet& tensors, const model::Config& config, const BindOptions& options);

class TensorBinder;

/// One decoder layer; `at` is what the names of its tensors begin with. Assistants have such layers too.
model::LayerWeights bind_layer(TensorBinder& binder, const model::Config& config, int layer,
                               const std::string& at);

}  // namespace slip::checkpoint
