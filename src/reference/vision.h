// The specification of the vision towers (model/vision.h) in plain float loops: patches in, soft rows out,
// one phase after the other over all rows of the image. Read vision.cpp from the top; it is the tower.
#pragma once

#include <functional>
#include <vector>

#include "model/image_patches.h"
#include "model/vision.h"
#include "reference/maths.h"

namespace slip::reference {

class Vision {
 public:
  /// `program` must outlive this.
  explicit Vision(const model::VisionProgram& program);

  /// One soft row per block of patches, blocks row by row. The image must fit (model/image_patches.h).
  std::vector<Row> encode(const model::ImagePatches& image);

  /// Called after every phase with the rows of the field it wrote.
  std::function<void(const model::VisionPhase&, const std::vector<Row>&)> observe;

 private:
  struct State;

  void embed_patches(State& state);
  void embed_tiles(State& state);
  void qkv(State& state, int layer);
  void attend(State& state);
  void attention_out(State& state, int layer);
  void gate_up(State& state, int layer);
  void down(State& state, int layer);
  void pool(State& state);
  void project(State& state);

  Row multiply(const model::ClippedMatrix& product, Row x);
  void rotate(Row& row, int column, int grid_row) const;
  Row norm(const Row& x, const Row& weight) const;
  Row layer_norm(const Row& x, const model::LayerNormWeights& weights) const;

  const model::VisionProgram& program_;
  const model::VisionConfig& config_;
  const model::VisionWeights& weights_;
  Tables tables_;
};

}  // namespace slip::reference
