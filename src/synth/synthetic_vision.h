// Synthetic vision towers: the published shapes with made-up weights, for measuring and for tests, as
// synthetic.h makes text models. Costs milliseconds and no weight memory until it is packed.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "checkpoint/tensor_set.h"
#include "model/vision.h"

namespace slip::synth {

/// The tower of a shape of shapes.h. The tiny ones have odd sizes: tiny-e2b clips, tiny-dense has heads of
/// 72, tiny-unified is of the 12B's kind. Throws Error(kUsage) for an unknown name.
model::VisionConfig vision_shape_config(std::string_view shape);

struct SyntheticVision {
  model::VisionConfig config;
  checkpoint::TensorSet tensors;
  model::VisionWeights weights;  // views of `tensors`
};

/// The same shape and seed give the same bytes everywhere.
std::unique_ptr<SyntheticVision> synthesize_vision(std::string_view shape, uint64_t seed = 1);

}  // namespace slip::synth
