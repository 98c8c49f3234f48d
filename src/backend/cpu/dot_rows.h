// Dot products of rows with panels, for the vision towers: thousands of rows, so arithmetic is the limit and
// not memory. A panel holds 32 outputs (the last one of a set perhaps 16) interleaved, as in packed_matrix.h:
//   bf16     [steps][lanes][2], a step being two columns; rows are bf16 too
//   floats   [steps][lanes], a step being one column; rows are floats
// Products with weights, scores of queries with keys and sums of values are all of this form.
//
// An output is one sum in the order of the steps, whatever the number of rows and panels that go along.
//
// Cost: bf16 runs on AVX-512 BF16 (Zen 4, Sapphire Rapids and later), twice the operations per instruction
// that floats have. Eight rows share the two loads of a step, which leaves the load ports half idle.
#pragma once

#include <cstdint>

namespace slip::backend::cpu {

struct DotPanels {
  const void* data = nullptr;
  int64_t stride = 0;  // bytes from one panel to the next
  int panels = 0;
  int last_lanes = 32;  // of the last panel: 16 or 32
  int64_t steps = 0;
};

/// Whether this machine has the instructions of dot_rows() for bf16; tests may say no.
bool has_bf16_dot();

/// out[row][32 * panel + lane] = (add ? out : 0) + sum over the steps. Strides are in elements; those of bf16
/// rows are even.
void dot_rows(const uint16_t* x, int64_t x_stride, int rows, const DotPanels& panels, float* out,
              int64_t out_stride, bool add);
void dot_rows(const float* x, int64_t x_stride, int rows, const DotPanels& panels, float* out,
              int64_t out_stride, bool add);

/// Operations (a multiplication and an addition are two) per second of one thread from registers alone: what
/// the products of a tower are measured against. Of bf16 where the machine has them, else of floats; takes a
/// few milliseconds.
double measure_dot_peak();
/// Of floats alone.
double measure_float_peak();

}  // namespace slip::backend::cpu
