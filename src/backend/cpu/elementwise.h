// Row operations between the matrix products: norms, rotary embedding, rounding to 8 bits and to bf16. A row
// is a few thousand floats, so these take about a microsecond; they are vectorised so that long prompts do
// not wait for them. Sums run over lanes in an order fixed by the length alone.
#pragma once

#include <cstdint>

namespace slip::backend::cpu {

/// out = x / rms(x) * weight; weight null = none. out may be x.
void norm_row(const float* x, const float* weight, int64_t count, float epsilon, float* out);

/// stream = stream + x / rms(x) * weight
void add_norm_row(const float* x, const float* weight, int64_t count, float epsilon, float* stream);

/// x = x * factor
void scale_row(float* x, float factor, int64_t count);

/// to = to + factor * from
void add_scaled_row(const float* from, float factor, int64_t count, float* to);

/// out = (a + b * b_scale) * factor
void mix_rows(const float* a, const float* b, float b_scale, float factor, int64_t count, float* out);

/// x = gelu(x) * y
void gelu_times_row(float* x, const float* y, int64_t count);

/// Turns pairs (i, i + half) for i < pairs by the angles whose cosines and sines are given.
void rotate_row(float* head, int64_t half, int64_t pairs, const float* cosines, const float* sines);

/// Rounds blocks of 64 to codes with a scale each. One plane: scale = max |x| / 127. Two: code = 256 * first
/// + second with scale = max |x| / 32639, the largest code whose planes both fit 8 bits. codes: [count /
/// 64][planes][64]. sums: [count / 32], scale * sum of codes.
void quantise_row(const float* x, int64_t count, int planes, int8_t* codes, float* scales, float* sums);

/// The sum of each block of 32.
void sum_blocks(const float* x, int64_t count, float* sums);

/// Rounds to nearest even, as stored in the cache.
void store_bf16(const float* x, int64_t count, uint16_t* out);

}  // namespace slip::backend::cpu
