// PackedMatrix: a weight matrix in the order the CPU kernels stream it.
//
// Rows are cut into panels of 32; a panel holds its rows interleaved, so that one vector register carries the
// same column of 16 outputs (two registers a panel with AVX-512), no horizontal sums are needed, every
// activation that is broadcast serves two registers, and a thread reads one sequential stream. Missing rows
// of the last panel are zero.
//   floats   bf16: pairs of columns, [cols/2][32 rows][2]; f16 and f32: [cols][32 rows]
//   affine   blocks of 64 columns (128 where the group is 128): first the scales [32] and biases [32] of each
//   group in the
//            block, then codes in steps of four columns, [step][32 rows][4 columns]. 8-bit: 16 steps of 128
//            bytes. 4-bit: 8 steps; the low nibbles hold columns 0..31, the high nibbles columns 32..63.
// 3-bit codes are kept as 4, 5- and 6-bit as 8: the values are the same. Scales stay bf16 if stored so, else
// become f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "tensor/matrix.h"

namespace slip::backend::cpu {

inline constexpr int kPanelRows = 32;

enum class PackedKind { kBf16, kF16, kF32, kAffine4, kAffine8 };

struct PackedMatrix {
  PackedKind kind = PackedKind::kBf16;
  int64_t rows = 0;
  int64_t cols = 0;
  int group = 0;             // affine only
  bool wide_scales = false;  // f32 scales and biases instead of bf16
  int64_t panels = 0;
  size_t panel_bytes = 0;
  size_t panel_stride = 0;  // larger than panel_bytes where two matrices share a stream panel by panel
  std::byte* data = nullptr;

  bool present() const { return panels > 0; }
  bool affine() const { return kind == PackedKind::kAffine4 || kind == PackedKind::kAffine8; }
  size_t bytes() const { return static_cast<size_t>(panels) * panel_bytes; }
  const std::byte* panel(int64_t index) const { return data + static_cast<size_t>(index) * panel_stride; }
};

/// Columns an affine matrix is padded to; activations are zero there.
int64_t padded_cols(int64_t cols, int group);

/// The layout for `rows` rows of `matrix`, without memory.
PackedMatrix plan(const tensor::Matrix& matrix, int64_t rows);
/// Gives a planned matrix its memory.
void place(PackedMatrix& packed, Carver& carver);
/// Gives two matrices of equal panel count one stream: panel 0 of a, panel 0 of b, panel 1 of a, ...
void place_interleaved(PackedMatrix& a, PackedMatrix& b, Carver& carver);

/// Fills a placed matrix with rows [first_row, first_row + packed.rows) of `matrix`, on all threads, and
/// drops the source pages as it goes.
void pack(const tensor::Matrix& matrix, int64_t first_row, const PackedMatrix& packed, ThreadPool& pool);

}  // namespace slip::backend::cpu
