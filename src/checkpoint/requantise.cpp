#include "checkpoint/requantise.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/float16.h"
#include "tensor/memory_tensor.h"
#include "tensor/quantise.h"

namespace slip::checkpoint {

namespace {

using tensor::DType;
using tensor::Matrix;
using tensor::MemoryTensor;

constexpr int64_t kSlab = 4096;  // rows after which the source's pages are given back

/// Values that are bf16 already, as affine_quantise() leaves them.
void store_bf16(const std::vector<float>& values, std::byte* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = to_bf16(values[i]).bits;
    std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
  }
}

class Requantiser {
 public:
  Requantiser(TensorSet& tensors, int bits) : tensors_(tensors), bits_(bits) {
    if (bits != 4 && bits != 8) fail_usage("a drafter can be quantised to 4 or 8 bits, not {}", bits);
  }

  void matrix(Matrix& matrix) {
    const int group = matrix.cols % 64 == 0 ? 64 : matrix.cols % 32 == 0 ? 32 : 0;
    if (!matrix.present() || matrix.encoding != tensor::Encoding::kFloat || group == 0) return;
    matrix = quantised(matrix, group);
    ++changed_;
  }

  void layers(model::Weights& weights) {
    for (model::LayerWeights& layer : weights.layers) {
      for (Matrix* part : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
        matrix(*part);
      }
    }
  }

  void note(std::string& format) const {
    if (changed_ > 0) format += fmt::format(", quantised to {} bits while loading", bits_);
  }

 private:
  MemoryTensor& make(const std::string& name, const char* part, DType dtype, std::vector<int64_t> shape) {
    auto made = std::make_unique<MemoryTensor>(fmt::format("{} ({}-bit {})", name, bits_, part), dtype,
                                               std::move(shape));
    MemoryTensor& result = *made;
    const bool fresh = tensors_.add(std::move(made));
    SLIP_CHECK(fresh);
    return result;
  }

  Matrix quantised(const Matrix& source, int group) {
    const int64_t rows = source.rows, cols = source.cols, groups = cols / group;
    MemoryTensor& weight = make(source.name, "codes", DType::kU32, {rows, cols * bits_ / 32});
    MemoryTensor& scales = make(source.name, "scales", DType::kBf16, {rows, groups});
    MemoryTensor& biases = make(source.name, "biases", DType::kBf16, {rows, groups});
    tensor::RowReader reader(source);
    std::vector<float> row(static_cast<size_t>(cols));
    tensor::AffineRow packed;
    for (int64_t r = 0; r < rows; ++r) {
      reader.floats(r, row.data());
      tensor::affine_quantise(row, bits_, group, packed);
      tensor::pack_codes(packed.codes.data(), bits_, cols, weight.data() + r * (cols * bits_ / 8));
      store_bf16(packed.scales, scales.data() + r * groups * 2);
      store_bf16(packed.biases, biases.data() + r * groups * 2);
      if ((r + 1) % kSlab == 0 || r + 1 == rows) reader.drop(r / kSlab * kSlab, r + 1);
    }

    Matrix result;
    result.name = source.name;
    result.rows = rows;
    result.cols = cols;
    result.encoding = tensor::Encoding::kAffine;
    result.bits = bits_;
    result.group = group;
    result.weight = &weight;
    result.scales = &scales;
    result.biases = &biases;
    return result;
  }

  TensorSet& tensors_;
  const int bits_;
  int changed_ = 0;
};

}  // namespace

void requantise(AssistantCheckpoint& checkpoint, int bits) {
  Requantiser to(checkpoint.tensors, bits);
  model::AssistantWeights& weights = checkpoint.weights;
  to.layers(weights.text);
  for (Matrix* matrix :
       {&weights.text.embed, &weights.pre_projection, &weights.post_projection, &weights.centroids}) {
    to.matrix(*matrix);
  }
  to.note(checkpoint.format);
}

void requantise(DflashCheckpoint& checkpoint, int bits) {
  Requantiser to(checkpoint.tensors, bits);
  to.layers(checkpoint.weights.text);
  to.matrix(checkpoint.weights.fc);
  to.note(checkpoint.format);
}

}  // namespace slip::checkpoint
