// Attention among the patches of one image: every query against all keys, in tiles of 256 keys with a running
// maximum, so that scores never leave the first-level cache and an image of any size needs the same scratch.
// A query's sums run over the keys in order, tile by tile: its bits do not depend on the queries beside it.
#pragma once

#include "backend/cpu/image_kv.h"

namespace slip::backend::cpu {

inline constexpr int kAttendTile = 256;  // keys

/// What one thread needs for so many queries.
class AttendScratch {
 public:
  AttendScratch() = default;
  AttendScratch(Carver& carver, int rows, int head_dim, bool narrow);

  int rows = 0;
  float* scores = nullptr;   // of some rows at a time, [kAttendTile] each
  void* weights = nullptr;   // the same, of bf16 or floats
  float* sums = nullptr;     // [rows, head dim rounded up to 32]
  float* highest = nullptr;  // [rows]
  float* total = nullptr;    // [rows]
  int64_t sums_stride = 0;
};

/// out[row][head * head dim ..] = softmax(query keys) values. `queries`: [rows][stride] in the elements of
/// `kv`; rows <= scratch.rows.
void attend_image(const ImageKv& kv, const void* queries, int64_t query_stride, int rows,
                  const AttendScratch& scratch, float* out, int64_t out_stride);

}  // namespace slip::backend::cpu
