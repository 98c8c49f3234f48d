// Synthetic targets that count and the assistants made for them, by the reference: what the target says after
// any token, and how often the assistant agrees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/noise.h"
#include "reference/forward.h"
#include "synth/synthetic.h"

namespace slip::reference {
namespace {

using synth::SynthOptions;
using tensor::Matrix;
using Row = std::vector<float>;

int best_of(const Row& logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Of the right token at temperature 1.
double probability(const Row& logits, int token) {
  const double top = logits[static_cast<size_t>(token)];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return 1 / sum;
}

/// How far the right token's logit is above all others.
float margin(Row logits, int token) {
  const float right = std::exchange(logits[static_cast<size_t>(token)], -1e9f);
  return right - *std::max_element(logits.begin(), logits.end());
}

struct Case {
  std::string shape;
  int bits;
};

class SyntheticPairOf : public ::testing::TestWithParam<Case> {
 protected:
  SynthOptions options(double acceptance) const {
    return {.shape = GetParam().shape, .bits = GetParam().bits, .acceptance = acceptance};
  }
};

TEST_P(SyntheticPairOf, after_every_token_comes_the_next_one_whatever_came_before) {
  const auto target = synth::synthesize(options(0.8));
  const model::Program program = model::build_program(target->config, target->weights);
  Forward forward(program);
  const int vocab = target->config.vocab;
  float least_margin = 1e9f;
  double least_probability = 1;
  // Long enough to leave every window behind, with jumps to random places; then a share of all tokens alone.
  Sequence sequence;
  int token = 2;
  for (uint64_t i = 0; i < 200; ++i) {
    const Result result = forward.step(sequence, token);
    const int next = (token + 1) % vocab;
    ASSERT_EQ(best_of(result.logits), next) << "after " << token << " at " << i;
    least_margin = std::min(least_margin, margin(result.logits, next));
    least_probability = std::min(least_probability, probability(result.logits, next));
    token = i % 20 == 19 ? static_cast<int>(keyed_bits(7, i) % static_cast<uint64_t>(vocab)) : next;
  }
  for (int t = 3; t < vocab; t += 4) {
    Sequence fresh;
    const Result result = forward.step(fresh, t);
    ASSERT_EQ(best_of(result.logits), (t + 1) % vocab);
    least_margin = std::min(least_margin, margin(result.logits, (t + 1) % vocab));
    least_probability = std::min(least_probability, probability(result.logits, (t + 1) % vocab));
  }
  EXPECT_GT(least_margin, 8) << "logits";
  EXPECT_GT(least_probability, 0.95);
  RecordProperty("least_margin", std::to_string(least_margin));
  RecordProperty("least_probability", std::to_string(least_probability));
}

/// The assistant's step by its definition (model/assistant.h), in plain loops over the target's caches.
class PlainAssistant {
 public:
  PlainAssistant(const checkpoint::Checkpoint& target, const checkpoint::AssistantCheckpoint& assistant)
      : target_(target), config_(assistant.config), weights_(assistant.weights) {}

  /// Logits of all tokens; with a centroid head those outside the kept clusters are far below.
  Row step(const Sequence& sequence, int token, Row& hidden) {
    Row in(static_cast<size_t>(2 * config_.backbone_hidden));
    tensor::RowReader(target_.weights.embed).floats(token, in.data());
    for (int i = 0; i < config_.backbone_hidden; ++i)
      in[static_cast<size_t>(i)] *= target_.config.embed_scale;
    std::copy(hidden.begin(), hidden.end(), in.begin() + config_.backbone_hidden);
    Row x = multiply(weights_.pre_projection, in);
    for (size_t i = 0; i < weights_.text.layers.size(); ++i) x = layer(sequence, i, std::move(x));
    const Row y = norm(x, weights_.text.final_norm);
    hidden = multiply(weights_.post_projection, y);
    return head(y);
  }

 private:
  Row layer(const Sequence& sequence, size_t index, Row x) {
    const model::LayerConfig& at = config_.text.layers[index];
    const model::LayerWeights& w = weights_.text.layers[index];
    Row q = multiply(w.q, norm(x, w.input_norm));
    const auto hd = static_cast<size_t>(at.head_dim);
    Row attended(q.size());
    const auto& cache = sequence.layers[static_cast<size_t>(at.kv_source)];
    EXPECT_FALSE(cache.keys.empty());
    for (size_t h = 0; h < static_cast<size_t>(at.heads); ++h) {
      Row query(q.begin() + static_cast<int64_t>(h * hd), q.begin() + static_cast<int64_t>((h + 1) * hd));
      query = norm(query, w.q_norm);
      rotate(query, at, sequence.length);
      const size_t kv = h / static_cast<size_t>(at.heads / at.kv_heads) * hd;
      const int first =
          at.kind == model::LayerKind::kSliding ? std::max(0, sequence.length - config_.text.window) : 0;
      Row shares;
      for (int t = first; t < sequence.length; ++t) {
        shares.push_back(std::exp(
            std::inner_product(query.begin(), query.end(), &cache.keys[static_cast<size_t>(t)][kv], 0.0f)));
      }
      const float total = std::accumulate(shares.begin(), shares.end(), 0.0f);
      for (int t = first; t < sequence.length; ++t) {
        for (size_t i = 0; i < hd; ++i) {
          attended[h * hd + i] +=
              shares[static_cast<size_t>(t - first)] / total * cache.values[static_cast<size_t>(t)][kv + i];
        }
      }
    }
    add(x, norm(multiply(w.o, attended), w.post_attention_norm));
    const Row z = norm(x, w.pre_mlp_norm);
    Row gate = multiply(w.gate, z);
    const Row up = multiply(w.up, z);
    for (size_t i = 0; i < up.size(); ++i) {
      const float g = gate[i];
      gate[i] = 0.5f * g * (1 + std::tanh(0.7978845608f * (g + 0.044715f * g * g * g))) * up[i];
    }
    add(x, norm(multiply(w.down, gate), w.post_mlp_norm));
    for (float& value : x) value *= w.scalar;
    return x;
  }

  static void rotate(Row& head, const model::LayerConfig& at, int position) {
    const size_t half = head.size() / 2;
    for (int i = 0; i < at.rotated_pairs; ++i) {
      const double angle = position * model::Config::rope_frequency(at, i);
      float &a = head[static_cast<size_t>(i)], &b = head[static_cast<size_t>(i) + half];
      const float c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
      const float turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
  }

  Row head(const Row& y) {
    Row logits = multiply(weights_.text.embed, y);
    if (config_.centroids == 0) return logits;
    const Row scores = multiply(weights_.centroids, y);
    std::vector<int> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    const auto size = static_cast<size_t>(config_.text.vocab / config_.centroids);
    Row kept(logits.size(), -1e9f);
    for (size_t slot = 0; slot < static_cast<size_t>(config_.kept_centroids); ++slot) {
      for (size_t i = 0; i < size; ++i) {
        const auto id = static_cast<size_t>(weights_.ordering[static_cast<size_t>(order[slot]) * size + i]);
        kept[id] = logits[id];
      }
    }
    return kept;
  }

  Row multiply(const Matrix& matrix, const Row& x) {
    Row& columns = columns_[&matrix];  // so that the compiler can use vectors: there are thousands of guesses
    const auto rows = static_cast<size_t>(matrix.rows), cols = static_cast<size_t>(matrix.cols);
    if (columns.empty()) {
      columns.resize(rows * cols);
      tensor::RowReader reader(matrix);
      Row row(cols);
      for (size_t r = 0; r < rows; ++r) {
        reader.floats(static_cast<int64_t>(r), row.data());
        for (size_t c = 0; c < cols; ++c) columns[c * rows + r] = row[c];
      }
    }
    Row y(rows);
    for (size_t c = 0; c < cols; ++c) {
      const float* column = &columns[c * rows];
      for (size_t r = 0; r < rows; ++r) y[r] += column[r] * x[c];
    }
    return y;
  }

  Row norm(Row x, const Row& weight) const {
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    const auto count = static_cast<double>(x.size());
    const auto scale = static_cast<float>(1 / std::sqrt(squares / count + config_.text.norm_epsilon));
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * weight[i];
    return x;
  }

  static void add(Row& to, const Row& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  const checkpoint::Checkpoint& target_;
  const model::AssistantConfig& config_;
  const model::AssistantWeights& weights_;
  std::map<const Matrix*, Row> columns_;
};

struct Agreement {
  double share = 0;
  float least_margin = 1e9f;  // of the guess, over all others
};

/// One guess after every token of the vocabulary, for a few seeds: other codes, other tokens missed.
Agreement agreement(SynthOptions options, uint64_t seeds) {
  Agreement found;
  int right = 0, all = 0;
  for (options.seed = 1; options.seed <= seeds; ++options.seed) {
    const auto target = synth::synthesize(options);
    const auto assistant = synth::synthesize_assistant(options);
    const model::Program program = model::build_program(target->config, target->weights);
    Forward forward(program);
    Sequence sequence;
    Row hidden;
    for (int i = 0; i < 8; ++i) hidden = forward.step(sequence, 300 + i).hidden;
    PlainAssistant plain(*target, *assistant);
    const int vocab = target->config.vocab;
    for (int t = 0; t < vocab; ++t) {
      const Row logits = plain.step(sequence, t, hidden);
      const int guess = best_of(logits);
      right += guess == (t + 1) % vocab ? 1 : 0;
      ++all;
      found.least_margin = std::min(found.least_margin, margin(logits, guess));
    }
  }
  found.share = static_cast<double>(right) / all;
  return found;
}

TEST_P(SyntheticPairOf, the_assistant_is_always_right_at_one_and_never_at_zero) {
  SynthOptions pair = options(1);
  pair.assistant_bits = pair.bits;
  const Agreement always = agreement(pair, 1);
  EXPECT_EQ(always.share, 1);
  EXPECT_GT(always.least_margin, 8);
  RecordProperty("least_margin", std::to_string(always.least_margin));
  pair.acceptance = 0;
  EXPECT_EQ(agreement(pair, 1).share, 0);
}

TEST(SyntheticPair, the_assistant_agrees_on_the_chosen_share_of_thousands_of_tokens) {
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}) {
    for (const double acceptance : {0.5, 0.8}) {
      const SynthOptions options{.shape = shape, .bits = 4, .acceptance = acceptance};
      EXPECT_NEAR(agreement(options, 8).share, acceptance, 0.02) << shape;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, SyntheticPairOf,
                         ::testing::Values(Case{"tiny-e2b", 4}, Case{"tiny-e2b", 8}, Case{"tiny-e2b", 16},
                                           Case{"tiny-dense", 4}, Case{"tiny-dense", 8},
                                           Case{"tiny-dense", 16}, Case{"tiny-moe", 4}, Case{"tiny-moe", 8},
                                           Case{"tiny-moe", 16}, Case{"tiny-unified", 4},
                                           Case{"tiny-unified", 8}, Case{"tiny-unified", 16}),
                         [](const auto& at) {
                           return at.param.shape.substr(5) + std::to_string(at.param.bits);
                         });

}  // namespace
}  // namespace slip::reference
