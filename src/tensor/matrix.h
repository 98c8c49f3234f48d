// Matrix: one weight matrix of a model as its checkpoint stores it, and RowReader, which reads its rows.
// Nothing here owns weight memory and nothing is computed with these types at speed: backends pack a Matrix
// once into their own layout, the reference dequantises rows from it.
//
// Value of an affine matrix: w[r][c] = code[r][c] * scale[r][c / group] + bias[r][c / group], codes unsigned,
// packed little-endian into 32-bit words, element 0 in the lowest bits (3, 5 and 6 bits run across word
// borders).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/stored_tensor.h"

namespace slip::tensor {

enum class Encoding { kFloat, kAffine };

struct Matrix {
  std::string name;  // as in the checkpoint, for messages
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  Encoding encoding = Encoding::kFloat;
  int bits = 16;                         // 32, 16 for floats; 3, 4, 5, 6, 8 for affine
  int group = 0;                         // columns that share a scale and a bias; affine only
  const StoredTensor* weight = nullptr;  // floats [rows, cols], or u32 [rows, cols * bits / 32]
  const StoredTensor* scales = nullptr;  // [rows, cols / group], affine only
  const StoredTensor* biases = nullptr;  // [rows, cols / group], affine only

  // Row r of this matrix is stored row (r / block) * stride + offset + r % block. Identity unless the
  // checkpoint keeps two matrices in one tensor: Hugging Face's experts.gate_up_proj holds, per expert, gate
  // rows and then up rows.
  int64_t block = 0;  // 0 = identity
  int64_t stride = 0;
  int64_t offset = 0;
  // Row r of this matrix is stored row order[r]; [rows], not owned. For heads that are read cluster by
  // cluster.
  const int32_t* order = nullptr;

  bool present() const { return weight != nullptr; }
  int64_t stored_row(int64_t row) const {
    if (order != nullptr) return order[row];
    return block == 0 ? row : (row / block) * stride + offset + row % block;
  }
};

/// Reads rows of one matrix. Holds scratch, taken once at the start, so use one per thread.
class RowReader {
 public:
  /// The matrix may be absent; then nothing may be read.
  explicit RowReader(const Matrix& matrix);

  /// Row `row` as floats, dequantised: out[cols].
  void floats(int64_t row, float* out);
  /// Row `row` of a float matrix in its stored type: bytes of cols elements.
  const std::byte* stored(int64_t row);
  /// Row `row` of an affine matrix: codes[cols], scales[cols / group], biases[cols / group].
  void codes(int64_t row, uint8_t* codes, float* scales, float* biases);
  /// Rows [begin, end) will not be read again soon.
  void drop(int64_t begin, int64_t end);

 private:
  const Matrix& matrix_;
  std::vector<std::byte> weight_scratch_, scale_scratch_, bias_scratch_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, biases_;
};

/// `count` stored floats of any float type, widened.
void widen(const std::byte* source, DType dtype, int64_t count, float* out);
/// A whole small tensor as floats (norm weights, scales).
std::vector<float> read_vector(const StoredTensor& tensor);

/// Unpacks `count` codes of `bits` each from little-endian words.
void unpack_codes(const std::byte* words, int bits, int64_t count, uint8_t* out);
/// The inverse; `words` must hold count * bits / 8 bytes and count * bits must divide by 32.
void pack_codes(const uint8_t* codes, int bits, int64_t count, std::byte* words);

}  // namespace slip::tensor
