#include "backend/cpu/packed_vision.h"

#include <functional>

namespace slip::backend::cpu {

namespace {

using Visit = std::function<void(const tensor::Matrix&, PackedMatrix&)>;

void for_each_matrix(const model::VisionWeights& weights, PackedVision& packed, const Visit& visit) {
  visit(weights.patch, packed.patch);
  packed.layers.resize(weights.layers.size());
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const model::VisionLayerWeights& from = weights.layers[i];
    PackedVisionLayer& to = packed.layers[i];
    visit(from.q.matrix, to.q);
    visit(from.k.matrix, to.k);
    visit(from.v.matrix, to.v);
    visit(from.o.matrix, to.o);
    visit(from.gate.matrix, to.gate);
    visit(from.up.matrix, to.up);
    visit(from.down.matrix, to.down);
  }
  visit(weights.projection, packed.projection);
}

}  // namespace

PackedVision pack_vision(const model::VisionWeights& weights, ThreadPool& pool) {
  PackedVision packed;
  Carver counter;
  for_each_matrix(weights, packed, [&](const tensor::Matrix& from, PackedMatrix& to) {
    to = plan(from, from.rows);
    place(to, counter);
  });
  // Kernels fetch a little ahead of what they read; a fetch past the end is harmless but should be ours.
  packed.memory = Buffer(counter.used() + 16384, "the vision tower");
  Carver placer(packed.memory.data());
  for_each_matrix(weights, packed, [&](const tensor::Matrix& from, PackedMatrix& to) {
    place(to, placer);
    pack(from, 0, to, pool);
  });
  return packed;
}

}  // namespace slip::backend::cpu
