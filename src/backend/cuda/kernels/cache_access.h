// Device-side addresses in the KV cache of kv/layout.h, and rotations.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

/// A page of a sequence, of all layers of the kind. `rows` are in shared memory, the pages of `step` are not.
__device__ __forceinline__ std::byte* cache_page(const CacheLayer& layer, const RowGroup& rows,
                                                 const Step* step, int page) {
  return load_fresh(&step->pages[rows.pages[layer.sliding ? 0 : 1] + page]);
}
/// [head_dim] elements of one part at one position.
__device__ __forceinline__ std::byte* cache_slot(const CacheLayer& layer, const RowGroup& rows,
                                                 const Step* step, int part, int kv_head, int position) {
  const auto at = static_cast<unsigned>(position);
  const int row = (part * layer.kv_heads + kv_head) * kCachePage + static_cast<int>(at % kCachePage);
  return cache_page(layer, rows, step, static_cast<int>(at / kCachePage)) + layer.page_offset +
         static_cast<int64_t>(row) * (layer.head_dim * layer.element_bytes);
}

struct Turn {
  float cosine, sine;
};
__device__ __forceinline__ Turn turned(const Turn& base, const Turn& page) {
  return {fmaf(base.cosine, page.cosine, -(base.sine * page.sine)),
          fmaf(base.sine, page.cosine, base.cosine * page.sine)};
}
__device__ __forceinline__ void turn_pair(float& x, float& y, const Turn& turn) {
  const float before = x;
  x = fmaf(x, turn.cosine, -(y * turn.sine));
  y = fmaf(y, turn.cosine, before * turn.sine);
}
__device__ __forceinline__ Turn turn_at(const Turns& turns, int position, int pair) {
  const auto read = [](const float* table, int index) {
    const float2 both = __ldg(reinterpret_cast<const float2*>(table) + index);
    return Turn{both.x, both.y};
  };
  const auto at = static_cast<unsigned>(position);
  return turned(read(turns.base, static_cast<int>(at / kCachePage) * turns.pairs + pair),
                read(turns.page, static_cast<int>(at % kCachePage) * turns.pairs + pair));
}

/// Rotations of the pairs [first, first + 4), some of which may not be there: then they are any.
class FourTurns {
 public:
  FourTurns() = default;
  __device__ __forceinline__ FourTurns(const Turns& turns, int position, int first) {
    const auto at = static_cast<unsigned>(position);
    read(turns.base, static_cast<int>(at / kCachePage) * turns.pairs, first, turns.pairs, base_);
    load_page(turns, turns.pairs, static_cast<int>(at % kCachePage), first);
  }
  /// Those of a place in a page, of so many pairs.
  __device__ __forceinline__ void load_page(const Turns& turns, int pairs, int place, int first) {
    read(turns.page, place * pairs, first, pairs, page_);
  }
  __device__ __forceinline__ void set_base(const float4& one, const float4& two) { put(one, two, base_); }
  __device__ __forceinline__ Turn at(int which) const { return turned(base_[which], page_[which]); }

 private:
  __device__ __forceinline__ static void put(const float4& one, const float4& two, Turn (&to)[4]) {
    to[0] = {one.x, one.y};
    to[1] = {one.z, one.w};
    to[2] = {two.x, two.y};
    to[3] = {two.z, two.w};
  }
  __device__ __forceinline__ static void read(const float* table, int row, int first, int pairs,
                                              Turn (&to)[4]) {
    const auto* from = reinterpret_cast<const float2*>(table) + row + first;
    if (pairs % 4 == 0) {  // then they come in whole words of 16 bytes, all or none of them
      if (first >= pairs) return;
      const auto* fours = reinterpret_cast<const float4*>(from);
      put(__ldg(fours), __ldg(fours + 1), to);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i >= pairs) continue;
      const float2 one = __ldg(from + i);
      to[i] = {one.x, one.y};
    }
  }

  Turn base_[4] = {}, page_[4] = {};
};

}  // namespace slip::backend::cuda
