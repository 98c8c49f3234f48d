#include "synth/synthetic_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/float16.h"
#include "base/noise.h"
#include "synth/shapes.h"
#include "synth/synthetic.h"
#include "tensor/matrix.h"

namespace slip::synth {
namespace {

using tensor::Matrix;
using tensor::RowReader;
using Row = std::vector<float>;

RotationCode code_of(const std::string& shape, uint64_t seed = 1) {
  return {shape_config(shape), assistant_shape_config(shape), seed, shape};
}

float dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0f);
}

Row row_of(RowReader& reader, const Matrix& matrix, int64_t row) {
  Row out(static_cast<size_t>(matrix.cols));
  reader.floats(row, out.data());
  return out;
}

/// Row by row from the stored bytes: the real shapes are too large to hold.
Row multiply(const Matrix& matrix, const Row& x) {
  RowReader reader(matrix);
  Row y;
  for (int64_t r = 0; r < matrix.rows; ++r) y.push_back(dot(row_of(reader, matrix, r), x));
  return y;
}

Row norm(Row x, const Row& weight) {
  const float scale = std::sqrt(static_cast<float>(x.size()) / dot(x, x));
  for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * weight[i];
  return x;
}

TEST(RotationCode, one_step_turns_the_code_of_a_token_into_that_of_the_next_also_at_the_end) {
  const RotationCode code = code_of("tiny-dense");
  const int pairs = code.pairs(), vocab = code.vocab();
  Row now(static_cast<size_t>(2 * pairs)), next(now.size());
  for (const int token : {0, 1, 255, vocab - 1}) {
    code.write(token, pairs, now.data());
    code.write((token + 1) % vocab, pairs, next.data());
    for (int i = 0; i < pairs; ++i) {
      const float c = now[static_cast<size_t>(2 * i)], s = now[static_cast<size_t>(2 * i + 1)];
      EXPECT_NEAR(next[static_cast<size_t>(2 * i)], c * code.step_cos(i) - s * code.step_sin(i), 1e-6);
      EXPECT_NEAR(next[static_cast<size_t>(2 * i + 1)], c * code.step_sin(i) + s * code.step_cos(i), 1e-6);
    }
  }
}

TEST(RotationCode, the_last_bit_of_a_cosine_decides_no_float_so_every_machine_has_the_same_code) {
  std::set<int> vocabularies;
  for (const std::string& shape : shape_names()) vocabularies.insert(shape_config(shape).vocab);
  for (const int vocab : vocabularies) {
    for (int j = 0; j < vocab; ++j) {
      const double angle = 2 * std::numbers::pi * j / vocab;
      for (const double value : {std::cos(angle), std::sin(angle)}) {
        for (const double beside : {std::nextafter(value, -2.0), std::nextafter(value, 2.0)}) {
          ASSERT_EQ(static_cast<float>(beside), static_cast<float>(value)) << vocab << ": " << j;
        }
      }
    }
  }
}

TEST(RotationCode, pairs_fit_the_mlp_that_turns_them_and_leave_room_for_the_constant) {
  for (const std::string& shape : shape_names()) {
    const model::Config target = shape_config(shape);
    const RotationCode code = code_of(shape);
    EXPECT_LT(2 * code.pairs(), target.hidden) << shape;
    EXPECT_LE(2 * code.pairs(), target.layers[RotationCode::kTurningLayer].intermediate) << shape;
    EXPECT_LE(code.assistant_pairs(), code.pairs()) << shape;
    EXPECT_EQ(code.slow_pairs() > 0, assistant_shape_config(shape).centroids > 0) << shape;
  }
  EXPECT_EQ(code_of("26b-a4b").pairs(), 1056);
}

TEST(RotationCode, a_shape_without_room_is_refused_by_name) {
  model::Config target = shape_config("tiny-dense");
  target.layers[0].intermediate = 40;
  try {
    RotationCode(target, assistant_shape_config("tiny-dense"), 1, "narrow");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("shape narrow is too small"), std::string::npos) << error.what();
  }
}

TEST(MisplacedRows, stay_in_their_block_and_hold_every_code_once) {
  const RotationCode code = code_of("e2b");
  for (const double acceptance : {0.0, 0.3, 0.8, 0.99, 1.0}) {
    const std::vector<int32_t> rows = misplaced_rows(code, acceptance, 5);
    int right = 0;
    std::set<int32_t> held;
    for (int32_t t = 0; t < code.vocab(); ++t) {
      const int32_t row = rows[static_cast<size_t>(t)];
      const int32_t token = row < 0 ? ~row : row;
      EXPECT_EQ(token / code.block(), t / code.block());
      EXPECT_TRUE(row >= 0 || token == t) << "only a token alone in its block is negated";
      held.insert(token);
      right += row == t ? 1 : 0;
    }
    EXPECT_EQ(held.size(), rows.size());
    EXPECT_NEAR(static_cast<double>(right) / code.vocab(), acceptance, 0.005);
    if (acceptance == 0 || acceptance == 1) {
      EXPECT_EQ(right, static_cast<int>(acceptance) * code.vocab());
    }
  }
}

TEST(PatternTensor, any_range_gives_the_bytes_of_a_whole_read) {
  for (const int bits : {3, 4, 5, 6, 8, 16}) {
    const auto made = synthesize({.shape = "tiny-moe", .bits = bits, .acceptance = 0.5});
    const tensor::StoredTensor& tensor = *made->weights.embed.weight;
    std::vector<std::byte> whole_scratch, scratch;
    const std::byte* whole = tensor.read(0, tensor.bytes(), whole_scratch);
    for (size_t offset = 0; offset < tensor.bytes(); offset += 997) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{130}, tensor.bytes() - offset}) {
        if (count > tensor.bytes() - offset) continue;
        const std::byte* piece = tensor.read(offset, count, scratch);
        ASSERT_TRUE(std::equal(piece, piece + count, whole + offset)) << bits << ": " << offset;
      }
    }
  }
}

TEST(PatternTensor, zeros_are_exact_and_values_keep_to_half_a_step_at_every_width) {
  const RotationCode code = code_of("tiny-dense");
  for (const int bits : {3, 4, 5, 6, 8, 16}) {
    const auto made = synthesize({.shape = "tiny-dense", .bits = bits, .acceptance = 0.5});
    const Matrix& down = made->weights.layers[0].down;
    RowReader reader(down);
    const float step = bits == 16 ? 1.0f / 256 : code_scale(bits, 1);
    for (int64_t r = 0; r < down.rows; ++r) {
      const Row row = row_of(reader, down, r);
      const int64_t pair = r / 2;
      for (int64_t c = 0; c < down.cols; ++c) {
        if (pair < code.pairs() && c / 2 == pair) continue;
        ASSERT_EQ(row[static_cast<size_t>(c)], 0) << bits;
      }
      if (pair >= code.pairs()) continue;
      const float same = row[static_cast<size_t>(r)];
      EXPECT_NEAR(same, code.step_cos(static_cast<int>(pair)), 0.51f * step + 0.004f) << bits;
    }
  }
}

/// The target's next token by its rotating layer and its head alone, from the stored bytes of a real shape;
/// the quiet branches are left out (tests/reference runs them, on tiny shapes).
class RealShape : public ::testing::TestWithParam<std::string> {};

TEST_P(RealShape, at_four_bits_the_next_token_is_far_above_its_neighbours_and_above_random_others) {
  const auto made = synthesize({.shape = GetParam(), .bits = 4, .acceptance = 0.8});
  const model::LayerWeights& layer = made->weights.layers[RotationCode::kTurningLayer];
  const Matrix& embed = made->weights.embed;
  RowReader reader(embed);
  // Units beyond the code have no gate, no input and no output.
  const int units = 2 * code_of(GetParam()).pairs();
  RowReader gates(layer.gate), ups(layer.up), downs(layer.down);
  const auto next_hidden = [&](int token) {
    Row x = row_of(reader, embed, token);
    for (float& value : x) value *= made->config.embed_scale;
    const Row z = norm(x, layer.pre_mlp_norm);
    Row activated(static_cast<size_t>(layer.down.cols));
    for (int u = 0; u < units; ++u) {
      const float g = dot(row_of(gates, layer.gate, u), z);
      const float gelu = 0.5f * g * (1 + std::tanh(0.7978845608f * (g + 0.044715f * g * g * g)));
      activated[static_cast<size_t>(u)] = gelu * dot(row_of(ups, layer.up, u), z);
    }
    Row y;
    for (int64_t r = 0; r < layer.down.rows; ++r) y.push_back(dot(row_of(downs, layer.down, r), activated));
    const Row turned = norm(y, layer.post_mlp_norm);
    for (size_t i = 0; i < x.size(); ++i) x[i] += turned[i];
    return norm(x, made->weights.final_norm);
  };
  for (uint64_t i = 0; i < 6; ++i) {
    const int vocab = made->config.vocab;
    const int token = static_cast<int>(keyed_bits(1, i) % static_cast<uint64_t>(vocab - 1));
    const Row hidden = next_hidden(token);
    const float right = dot(row_of(reader, embed, token + 1), hidden);
    EXPECT_NEAR(right, 26, 2) << token;
    float nearest = -1e9f, highest = -1e9f;
    for (int other = std::max(0, token - 300); other < std::min(vocab, token + 300); ++other) {
      if (other != token + 1) nearest = std::max(nearest, dot(row_of(reader, embed, other), hidden));
    }
    for (uint64_t k = 0; k < 3000; ++k) {
      const int other = static_cast<int>(keyed_bits(i + 2, k) % static_cast<uint64_t>(vocab));
      if (other != token + 1) highest = std::max(highest, dot(row_of(reader, embed, other), hidden));
    }
    EXPECT_LT(nearest, 0.35f * right) << token;
    EXPECT_LT(highest, 0.3f * right) << token;
  }
}

// E2B has slow pairs for its centroid head, 26B-A4B fewer MLP units than hidden coordinates.
INSTANTIATE_TEST_SUITE_P(Published, RealShape, ::testing::Values("e2b", "26b-a4b"),
                         [](const auto& at) { return at.param.substr(0, 3); });

TEST(RealAssistant, e2b_at_four_bits_finds_the_cluster_and_the_token_by_a_wide_margin) {
  const SynthOptions options{.shape = "e2b", .bits = 4, .acceptance = 0.8, .assistant_bits = 4};
  const auto target = synthesize(options);
  const auto made = synthesize_assistant(options);
  const model::AssistantWeights& weights = made->weights;
  const std::vector<int32_t> rows = misplaced_rows(code_of("e2b"), 0.8, options.seed);
  RowReader embeds(target->weights.embed), heads(weights.text.embed);
  int right = 0;
  constexpr int kTokens = 60;
  for (uint64_t i = 0; i < kTokens; ++i) {
    const int token = static_cast<int>(keyed_bits(3, i) % 262143);
    Row in = row_of(embeds, target->weights.embed, token);
    for (float& value : in) value *= target->config.embed_scale;
    in.resize(2 * in.size(), 1.0f);  // any hidden state
    const Row y = norm(multiply(weights.pre_projection, in), weights.text.final_norm);
    const Row scores = multiply(weights.centroids, y);
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
    int guess = -1, place = -1;
    float best = -1e9f, second = -1e9f;
    for (int slot = 0; slot < made->config.kept_centroids; ++slot) {
      for (int j = 0; j < 128; ++j) {
        const int id = weights.ordering[static_cast<size_t>(order[static_cast<size_t>(slot)] * 128 + j)];
        if (id / 128 == (token + 1) / 128) place = slot;
        const float logit = dot(row_of(heads, weights.text.embed, id), y);
        if (logit > best) guess = id;
        second = std::max(second, std::min(best, logit));
        best = std::max(best, logit);
      }
    }
    EXPECT_GE(place, 0) << "the cluster of the next token is not kept";
    EXPECT_LT(place, 8);
    EXPECT_NEAR(best, 20, 2);
    EXPECT_LT(second, 0.6f * best);
    EXPECT_EQ(rows[static_cast<size_t>(guess)], token + 1) << "the guess is the row that holds the next code";
    right += guess == token + 1 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(right) / kTokens, 0.8, 0.15);
}

}  // namespace
}  // namespace slip::synth
