// The vision part of an opened checkpoint. open() leaves it alone, so that a run with text only neither binds
// nor reads it; open_vision() binds it when the first image comes. Matrices are views of the checkpoint,
// which must outlive the packing. Cost: config.json is read again, and the small vectors.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/image_processor.h"
#include "checkpoint/vision_config.h"
#include "model/vision.h"

namespace slip::checkpoint {

struct Vision {
  model::VisionConfig config;
  model::VisionWeights weights;
  MediaTokens tokens;
  int soft_tokens = kDefaultSoftTokens;  // of a picture, unless somebody says otherwise
};

/// Nothing where the model reads text alone. Throws Error(kBadFile) naming the tensor that is missing, has
/// another shape, or has no place in the tower that config.json describes.
std::optional<Vision> open_vision(const Checkpoint& checkpoint);

class TensorBinder;
/// `clipped`: the four bounds of every product are in the file.
model::VisionWeights bind_vision(TensorBinder& binder, const model::VisionConfig& config, bool clipped);

}  // namespace slip::checkpoint
