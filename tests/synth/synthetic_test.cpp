#include "synth/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "base/error.h"
#include "synth/shapes.h"
#include "synth/synthetic_tensor.h"
#include "tensor/matrix.h"

namespace slip::synth {
namespace {

using tensor::DType;
using tensor::Matrix;
using tensor::RowReader;
using tensor::StoredTensor;

std::vector<std::byte> bytes_of(const StoredTensor& tensor, size_t offset, size_t count) {
  std::vector<std::byte> scratch;
  const std::byte* at = tensor.read(offset, count, scratch);
  return {at, at + count};
}

std::vector<std::byte> bytes_of(const StoredTensor& tensor) {
  return bytes_of(tensor, 0, tensor.bytes());
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(const Matrix& matrix) {
  RowReader reader(matrix);
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  double sum = 0, squares = 0, largest = 0;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    reader.floats(r, row.data());
    for (const float value : row) {
      sum += value;
      squares += double{value} * value;
      largest = std::max(largest, std::abs(double{value}));
    }
  }
  const auto count = static_cast<double>(matrix.rows * matrix.cols);
  return {.mean = sum / count, .deviation = std::sqrt(squares / count), .largest = largest};
}

TEST(SyntheticTensor, any_range_gives_the_bytes_of_a_whole_read) {
  for (const Filling& filling : {random_weights(0.02), values_near(1, 0.2)}) {
    const SyntheticTensor tensor({.name = "t", .shape = {37, 19}, .filling = filling}, 3);
    const std::vector<std::byte> whole = bytes_of(tensor);
    ASSERT_EQ(whole.size(), 37u * 19u * 2u);
    std::vector<std::byte> scratch;
    for (size_t offset = 0; offset < whole.size(); offset += 13) {
      for (const size_t count :
           {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{64}, whole.size() - offset}) {
        if (count > whole.size() - offset) continue;
        const std::byte* piece = tensor.read(offset, count, scratch);
        ASSERT_TRUE(std::equal(piece, piece + count, whole.data() + offset)) << offset << "+" << count;
      }
    }
  }
}

TEST(SyntheticTensor, bytes_depend_on_seed_and_name_and_nothing_else) {
  const SyntheticTensor::Spec spec{
      .name = "a", .dtype = DType::kU32, .shape = {64, 4}, .filling = random_codes()};
  SyntheticTensor::Spec other = spec;
  other.name = "b";
  EXPECT_EQ(bytes_of(SyntheticTensor(spec, 1)), bytes_of(SyntheticTensor(spec, 1)));
  EXPECT_NE(bytes_of(SyntheticTensor(spec, 1)), bytes_of(SyntheticTensor(spec, 2)));
  EXPECT_NE(bytes_of(SyntheticTensor(spec, 1)), bytes_of(SyntheticTensor(other, 1)));
}

TEST(SyntheticTensor, threads_with_a_scratch_each_read_the_same) {
  const SyntheticTensor tensor({.name = "t", .shape = {512, 64}, .filling = random_weights(1)}, 9);
  const std::vector<std::byte> whole = bytes_of(tensor);
  std::vector<std::byte> first, second;
  std::thread a([&] { first = bytes_of(tensor, 0, whole.size() / 2); });
  std::thread b([&] { second = bytes_of(tensor, whole.size() / 2, whole.size() / 2); });
  a.join();
  b.join();
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(first, whole);
}

TEST(SyntheticTensor, weights_have_about_the_deviation_asked_for) {
  for (const double deviation : {0.001, 0.0136, 0.05, 0.3, 2.0}) {
    const SyntheticTensor tensor({.name = "t", .shape = {1 << 16}, .filling = random_weights(deviation)}, 5);
    double sum = 0, squares = 0;
    const std::vector<float> values = tensor::read_vector(tensor);
    for (const float value : values) {
      sum += value;
      squares += double{value} * value;
    }
    const double found = std::sqrt(squares / static_cast<double>(values.size()));
    EXPECT_GT(found, deviation / 1.45);
    EXPECT_LT(found, deviation * 1.45);
    EXPECT_LT(std::abs(sum / static_cast<double>(values.size())), 0.02 * found);
    EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 1000u);
  }
}

TEST(Synthesize, every_tiny_shape_binds_in_both_layouts_with_no_tensor_left_over) {
  for (const std::string& shape : shape_names()) {
    if (!shape.starts_with("tiny-")) continue;
    for (const SynthLayout layout : {SynthLayout::kHuggingFace, SynthLayout::kMlx}) {
      const auto made = synthesize({.shape = shape, .bits = 16, .layout = layout});
      EXPECT_EQ(static_cast<int>(made->weights.layers.size()), made->config.layer_count()) << shape;
      EXPECT_TRUE(made->not_loaded.empty()) << shape << ": " << made->not_loaded.front().group;
      EXPECT_EQ(made->weights.embed.encoding, tensor::Encoding::kFloat);
    }
  }
}

TEST(Synthesize, published_shapes_are_ready_at_once_because_nothing_is_generated_yet) {
  for (const char* shape : {"e2b", "e4b", "12b", "26b-a4b", "31b"}) {
    const auto made = synthesize({.shape = shape, .bits = 4});
    EXPECT_EQ(made->weights.embed.rows, 262144) << shape;
    EXPECT_EQ(made->weights.embed.bits, 4) << shape;
    EXPECT_TRUE(made->not_loaded.empty()) << shape;
    EXPECT_GT(made->file_bytes, size_t{2} << 30) << shape;
  }
  // 25.2 billion parameters of 4.5 bits, router and norms a little more.
  EXPECT_NEAR(static_cast<double>(synthesize({.shape = "26b-a4b"})->file_bytes) * 1e-9, 14.2, 0.1);
}

TEST(Synthesize, all_bit_widths_and_groups_give_centred_finite_weights_of_the_same_spread) {
  for (const int bits : {3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const auto made = synthesize({.shape = "tiny-dense", .bits = bits, .group = group});
      const Matrix& gate = made->weights.layers[1].gate;
      ASSERT_EQ(gate.bits, bits);
      ASSERT_EQ(gate.group, group);
      const double expected = 1 / std::sqrt(static_cast<double>(gate.cols));
      const Moments found = moments(gate);
      EXPECT_NEAR(found.deviation, expected, 0.05 * expected);
      EXPECT_NEAR(found.mean, 0, 0.02 * expected);
      EXPECT_LT(found.largest, 3 * expected);
    }
  }
}

TEST(Synthesize, the_router_keeps_eight_bits_and_experts_bind_in_both_layouts) {
  const auto mlx = synthesize({.shape = "tiny-moe", .bits = 4});
  EXPECT_EQ(mlx->weights.layers[0].moe.router.bits, 8);
  EXPECT_EQ(mlx->weights.layers[0].moe.gate.bits, 4);
  const auto hf = synthesize({.shape = "tiny-moe", .bits = 16});
  const model::MoeWeights& moe = hf->weights.layers[0].moe;
  EXPECT_EQ(moe.gate.rows, 8 * 128);
  EXPECT_EQ(moe.gate.weight, moe.up.weight);
  EXPECT_EQ(moe.up.stored_row(0), 128);
}

TEST(Synthesize, vectors_lie_around_their_centres) {
  const auto made = synthesize({.shape = "tiny-e2b", .bits = 16});
  for (const model::LayerWeights& layer : made->weights.layers) {
    EXPECT_GE(layer.scalar, 0.59f);
    EXPECT_LE(layer.scalar, 1.0f);
    for (const float weight : layer.input_norm) {
      EXPECT_GE(weight, 0.79f);
      EXPECT_LE(weight, 1.21f);
    }
  }
  EXPECT_NE(made->weights.layers[0].input_norm, made->weights.layers[1].input_norm);
}

TEST(Synthesize, generation_defaults_are_the_published_ones) {
  const auto made = synthesize({.shape = "12b"});
  EXPECT_EQ(made->generation.stop_ids, (std::vector<int>{1, 106, 50}));
  EXPECT_EQ(made->generation.suppress_ids, (std::vector<int>{258883, 258882}));
  EXPECT_TRUE(synthesize({.shape = "tiny-unified"})->generation.suppress_ids.empty());
  EXPECT_TRUE(made->generation.do_sample);
  EXPECT_EQ(made->generation.top_k, 64);
}

TEST(Synthesize, combinations_that_no_checkpoint_has_are_refused_with_a_way_out) {
  EXPECT_THROW(synthesize({.bits = 7}), Error);
  EXPECT_THROW(synthesize({.bits = 0}), Error);
  EXPECT_THROW(synthesize({.group = 48}), Error);
  EXPECT_THROW(synthesize({.shape = "nothing"}), Error);
  EXPECT_THROW(synthesize({.bits = 4, .layout = SynthLayout::kHuggingFace}), Error);
  try {
    synthesize({.shape = "26b-a4b", .bits = 4, .group = 128});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("groups of 64"), std::string::npos) << error.what();
  }
}

TEST(SynthesizeAcceptance, the_target_is_the_same_for_every_share_and_only_token_1_ends_it) {
  const auto half = synthesize({.shape = "12b", .acceptance = 0.5});
  EXPECT_EQ(half->generation.stop_ids, std::vector<int>{1});
  EXPECT_TRUE(half->generation.suppress_ids.empty());
  const auto one = synthesize({.shape = "tiny-e2b", .acceptance = 0.5});
  const auto two = synthesize({.shape = "tiny-e2b", .acceptance = 0.9});
  const auto random = synthesize({.shape = "tiny-e2b"});
  ASSERT_EQ(one->tensors.size(), random->tensors.size());
  EXPECT_EQ(one->file_bytes, random->file_bytes);
  for (const auto& [name, tensor] : one->tensors) {
    EXPECT_EQ(bytes_of(*tensor), bytes_of(*two->tensors.find(name))) << name;
    EXPECT_EQ(tensor->shape(), random->tensors.find(name)->shape()) << name;
  }
}

TEST(SynthesizeAssistant, every_shape_and_width_binds_with_no_tensor_left_over) {
  for (const std::string& shape : shape_names()) {
    for (const int bits : {4, 8, 16}) {
      for (const auto acceptance : {std::optional<double>(), std::optional<double>(0.7)}) {
        const auto made =
            synthesize_assistant({.shape = shape, .acceptance = acceptance, .assistant_bits = bits});
        const model::AssistantWeights& weights = made->weights;
        EXPECT_EQ(weights.text.layers.size(), 4u);
        EXPECT_EQ(weights.text.layers[3].down.bits, bits);
        EXPECT_EQ(weights.pre_projection.cols, 2 * made->config.backbone_hidden);
        EXPECT_EQ(weights.post_projection.rows, made->config.backbone_hidden);
        EXPECT_EQ(weights.centroids.present(), made->config.centroids > 0);
        EXPECT_EQ(made->format,
                  bits == 16 ? "Hugging Face bf16" : "MLX affine " + std::to_string(bits) + "-bit, group 64");
        // Per layer 11 tensors, of which 5 are matrices; beside them the head, its norm and two projections.
        const size_t clusters = made->config.centroids > 0 ? 1 : 0;
        const size_t matrices = 4 * 5 + 3 + clusters;
        EXPECT_EQ(made->tensors.size(), 4 * 11 + 4 + 2 * clusters + (bits == 16 ? 0 : 2 * matrices)) << shape;
      }
    }
  }
}

TEST(SynthesizeAssistant, the_ordering_has_every_token_once_and_neighbours_in_one_cluster) {
  for (const SynthLayout layout : {SynthLayout::kAuto, SynthLayout::kMlx}) {
    const auto made = synthesize_assistant({.shape = "tiny-e2b", .bits = 16, .layout = layout});
    const std::vector<int32_t>& ordering = made->weights.ordering;
    ASSERT_EQ(ordering.size(), 512u);
    EXPECT_EQ(std::set<int32_t>(ordering.begin(), ordering.end()).size(), 512u);
    EXPECT_FALSE(std::is_sorted(ordering.begin(), ordering.end()));
    for (size_t i = 0; i < ordering.size(); ++i) {
      EXPECT_EQ(ordering[i] / 16, ordering[i / 16 * 16] / 16);
    }
    const StoredTensor& stored = *made->tensors.find("masked_embedding.token_ordering");
    EXPECT_EQ(stored.dtype(), layout == SynthLayout::kMlx ? DType::kI32 : DType::kI64);
    const std::vector<std::byte> bytes = bytes_of(stored);
    const size_t width = tensor::size_of(stored.dtype());
    for (size_t i = 0; i < ordering.size(); ++i) {
      int64_t id = 0;
      std::memcpy(&id, bytes.data() + i * width, width);
      ASSERT_EQ(id, ordering[i]);
    }
    EXPECT_EQ(bytes_of(stored, 13, 40), std::vector<std::byte>(bytes.begin() + 13, bytes.begin() + 53));
  }
}

TEST(SynthesizeAssistant, what_cannot_be_is_refused) {
  for (const double acceptance : {-0.1, 1.1, std::nan("")}) {
    EXPECT_THROW(synthesize({.shape = "tiny-e2b", .acceptance = acceptance}), Error);
    EXPECT_THROW(synthesize_assistant({.shape = "tiny-e2b", .acceptance = acceptance}), Error);
  }
  EXPECT_THROW(synthesize_assistant({.shape = "tiny-e2b", .assistant_bits = 5}), Error);
  EXPECT_THROW(synthesize_assistant({.shape = "tiny-e2b", .group = 0}), Error);
  EXPECT_THROW(synthesize_assistant({.shape = "nothing"}), Error);
}

}  // namespace
}  // namespace slip::synth
