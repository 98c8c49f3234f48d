// The tensors a checkpoint of one Config has, by name, shape and filling: what a published text decoder of
// that Config ships (towers left out), in Hugging Face's layout or in MLX's. Nothing is generated here; see
// synthetic_tensor.h.
//
// The sizes of the values are chosen so that a forward pass stays finite and greedy text keeps changing:
// linear maps have a deviation of about 1 / sqrt(columns), norm weights lie around 1, layer scalars between
// 0.6 and 1. Exceptions do what training does: q and k norms shrink with the head size, because attention
// scores are not divided by sqrt(head_dim); router rows are large, because the router's input is tiny; the
// embedding is small and the final norm large, so that logits spread without every token predicting itself.
#pragma once

#include <vector>

#include "checkpoint/synthetic_tensor.h"
#include "model/config.h"

namespace slip::checkpoint {

struct SyntheticFormat {
  bool mlx = false;  // names and expert split of MLX; Hugging Face otherwise
  int bits = 16;     // of matrices; below 16 affine codes with scales and biases, MLX only
  int group = 64;
};

/// Throws Error(kUsage) when the group does not divide a matrix's columns.
std::vector<SyntheticTensor::Spec> synthetic_layout(const model::Config& config,
                                                    const SyntheticFormat& format);

}  // namespace slip::checkpoint
