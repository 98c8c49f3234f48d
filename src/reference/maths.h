// The small pieces every network here is made of, in plain float loops: norms, rotation, attention, and
// Tables, which widens weights to floats the first time they are used. forward.cpp, assistant.cpp and
// dflash.cpp say how the pieces go together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "model/config.h"
#include "model/weights.h"

namespace slip::reference {

using Row = std::vector<float>;

/// What one layer has stored: a vector per position.
struct KeyValues {
  std::vector<Row> keys, values;  // [position][nKV * hd]
};

float gelu_tanh(float x);
float silu(float x);
void add(Row& to, const Row& from);
void scale(Row& row, float factor);
void round_to_bf16(Row& row);
/// cap * tanh(x / cap); nothing without a cap.
void softcap(Row& row, float cap);

/// x / rms(x), without a weight.
void normalise(float* x, int count, float epsilon);
/// x / rms(x) * weight.
Row norm(const Row& x, const Row& weight, float epsilon);
/// The same for every head of a row; `weight` may be null.
void norm_heads(Row& row, int head_dim, const Row* weight, float epsilon);
/// Rotates the pairs (i, i + hd/2) of every head by position * frequency(i).
void rotate_heads(Row& row, const model::LayerConfig& layer, int position);

/// softmax(query keys) values over the positions [first, end): no 1/sqrt(hd), no cap.
Row attend(const Row& query, const model::LayerConfig& layer, const KeyValues& stored, int first, int end);

/// The indices of the `count` largest values, the largest first, ties to the lower index.
std::vector<int> largest(const Row& values, int count);

/// One row of a matrix, without widening the rest.
Row read_row(const model::Matrix& matrix, int64_t row);

/// How backends round what affine matrices are multiplied with: in blocks of 64 columns, each to multiples of
/// its largest magnitude over 127 or 32,639 (two planes of 8 bits, backend/cpu/elementwise.h).
enum class ActivationRounding { kNone, kBits8, kBits16 };
void round_activations(Row& row, ActivationRounding rounding);

/// Changes a result as the rounding of another executor would (sensitivity.h).
using Disturb = std::function<void(std::vector<float>&)>;

/// Matrices as floats, widened once. A matrix is known by its address, so it must stay where it is.
class Tables {
 public:
  /// Rows [first_row, first_row + rows) of the matrix times x; all rows when `rows` is negative.
  Row multiply(const model::Matrix& matrix, const Row& x, int64_t first_row = 0, int64_t rows = -1);

  ActivationRounding rounding = ActivationRounding::kNone;  // of x, where the matrix is affine
  Disturb disturb;                                          // called with every product

 private:
  std::map<const model::Matrix*, std::vector<float>> tables_;  // row major
};

}  // namespace slip::reference
