#include "synth/synthetic_code.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "base/noise.h"

namespace slip::synth {

namespace {

// Streams of the seed. Names of tensors hash to other numbers.
constexpr uint64_t kTurnStream = 0x7475726e, kNoiseStream = 0x6e6f6973, kMissStream = 0x6d697373;
// Fewer pairs than this leave too many tokens of a small vocabulary alike.
constexpr int kFewestPairs = 32;
constexpr int kDenseBlock = 128;
constexpr float kNoise = 1.0f / 8;

/// Appends `count` numbers in [1, most] that are not in `turns` yet.
void draw_distinct(uint64_t key, uint32_t most, int count, std::vector<uint32_t>& turns) {
  std::set<uint32_t> taken(turns.begin(), turns.end());
  for (uint64_t i = 0; count > 0; ++i) {
    const auto turn = static_cast<uint32_t>(1 + keyed_bits(key, i) % most);
    if (!taken.insert(turn).second) continue;
    turns.push_back(turn);
    --count;
  }
}

class TargetEmbedding final : public RowPattern {
 public:
  TargetEmbedding(SharedCode code, uint64_t seed)
      : code_(std::move(code)), key_(noise_key(seed, kNoiseStream)) {}
  void row(int64_t token, std::span<float> out) const override {
    const auto coded = static_cast<size_t>(2 * code_->pairs());
    code_->write(token, code_->pairs(), out.data());
    out[coded] = 1;
    // A byte of the hash per value: 256 levels around 0.
    uint64_t bits = 0;
    for (size_t i = coded + 1, draw = 0; i < out.size(); ++i, ++draw) {
      if (draw % 8 == 0) bits = keyed_bits(key_, static_cast<uint64_t>(token) * out.size() + draw);
      out[i] = kNoise * (static_cast<float>(bits & 255) - 127.5f) / 127.5f;
      bits >>= 8;
    }
  }

 private:
  SharedCode code_;
  uint64_t key_;
};

/// Row j < count has a single 1, in column first + j * step.
class SingleOnes final : public RowPattern {
 public:
  SingleOnes(int64_t count, int64_t first, int64_t step) : count_(count), first_(first), step_(step) {}
  void row(int64_t row, std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0f);
    if (row < count_) out[static_cast<size_t>(first_ + row * step_)] = 1;
  }

 private:
  int64_t count_, first_, step_;
};

class TurnedPairs final : public RowPattern {
 public:
  TurnedPairs(SharedCode code, int pairs) : code_(std::move(code)), pairs_(pairs) {}
  void row(int64_t row, std::span<float> out) const override {
    std::fill(out.begin(), out.end(), 0.0f);
    const int64_t pair = row / 2;
    if (pair >= pairs_) return;
    const float c = code_->step_cos(static_cast<int>(pair)), s = code_->step_sin(static_cast<int>(pair));
    const auto at = static_cast<size_t>(2 * pair);
    out[at] = row % 2 == 0 ? c : s;
    out[at + 1] = row % 2 == 0 ? -s : c;
  }

 private:
  SharedCode code_;
  int64_t pairs_;
};

/// The codes of listed tokens, from pair 0 to `pairs`.
class CodesOf final : public RowPattern {
 public:
  CodesOf(SharedCode code, std::vector<int32_t> tokens, int pairs)
      : code_(std::move(code)), tokens_(std::move(tokens)), pairs_(pairs) {}
  void row(int64_t row, std::span<float> out) const override {
    const int32_t token = tokens_[static_cast<size_t>(row)];
    code_->write(token < 0 ? ~token : token, pairs_, out.data());
    const std::span<float> coded = out.first(static_cast<size_t>(2 * pairs_));
    if (token < 0) std::transform(coded.begin(), coded.end(), coded.begin(), std::negate<float>());
    std::fill(out.begin() + 2 * pairs_, out.end(), 0.0f);
  }

 private:
  SharedCode code_;
  std::vector<int32_t> tokens_;
  int pairs_;
};

}  // namespace

RotationCode::RotationCode(const model::Config& target, const model::AssistantConfig& assistant,
                           uint64_t seed, const std::string& shape)
    : vocab_(target.vocab),
      block_(assistant.centroids > 0 ? target.vocab / assistant.centroids : kDenseBlock) {
  const int inner = target.layers[kTurningLayer].intermediate;
  // Every coded coordinate needs a unit of the MLP, and the constant a coordinate of its own.
  const int pairs = std::min({(target.hidden - 1) / 2, inner / 2, vocab_ / 4});
  assistant_pairs_ = std::min(pairs, assistant.text.hidden / 2);
  if (assistant_pairs_ < kFewestPairs) {
    fail_usage(
        "shape {} is too small for a chosen acceptance: its hidden sizes {} and {}, intermediate size {} and "
        "vocabulary {} leave {} pairs to tell tokens apart, and {} are needed",
        shape, target.hidden, assistant.text.hidden, inner, vocab_, assistant_pairs_, kFewestPairs);
  }
  if (assistant.centroids > 0) slow_pairs_ = assistant_pairs_ / 4;
  choose_turns(seed, pairs);
  circle_.resize(2 * static_cast<size_t>(vocab_));
  for (int j = 0; j < vocab_; ++j) {
    const double angle = 2 * std::numbers::pi * j / vocab_;
    circle_[2 * static_cast<size_t>(j)] = static_cast<float>(std::cos(angle));
    circle_[2 * static_cast<size_t>(j) + 1] = static_cast<float>(std::sin(angle));
  }
}

void RotationCode::choose_turns(uint64_t seed, int count) {
  const uint64_t key = noise_key(seed, kTurnStream);
  // The fastest slow pair turns by 45 degrees from the middle of a cluster to its end. One draw from each of
  // equal parts of the range: together they tell clusters apart at every distance.
  const double most = std::max(1.0, vocab_ / (4.0 * block_));
  for (int i = 0; i < slow_pairs_; ++i) {
    const double at = (i + keyed_uniform(key, static_cast<uint64_t>(i))) / slow_pairs_;
    turns_.push_back(1 + static_cast<uint32_t>(at * (most - 1) + 0.5));
  }
  draw_distinct(mix64(key), static_cast<uint32_t>((vocab_ - 1) / 2), count - slow_pairs_, turns_);
}

void RotationCode::write(int64_t token, int pairs, float* out) const {
  const auto size = static_cast<uint64_t>(vocab_);
  for (int i = 0; i < pairs; ++i) {
    const uint64_t j = static_cast<uint64_t>(token) * turns_[static_cast<size_t>(i)] % size;
    out[2 * i] = circle_[2 * j];
    out[2 * i + 1] = circle_[2 * j + 1];
  }
}

SharedPattern target_embedding(SharedCode code, uint64_t seed) {
  return std::make_shared<TargetEmbedding>(std::move(code), seed);
}

SharedPattern code_coordinates(const SharedCode& code) {
  return std::make_shared<SingleOnes>(2 * code->pairs(), 0, 1);
}

SharedPattern constant_gates(const SharedCode& code) {
  return std::make_shared<SingleOnes>(2 * code->pairs(), 2 * code->pairs(), 0);
}

SharedPattern turned_pairs(SharedCode code, int pairs) {
  return std::make_shared<TurnedPairs>(std::move(code), pairs);
}

SharedPattern assistant_embedding(SharedCode code, std::vector<int32_t> tokens) {
  const int pairs = code->assistant_pairs();
  return std::make_shared<CodesOf>(std::move(code), std::move(tokens), pairs);
}

SharedPattern cluster_centres(SharedCode code, std::vector<int32_t> centres) {
  const int pairs = code->slow_pairs();
  return std::make_shared<CodesOf>(std::move(code), std::move(centres), pairs);
}

std::vector<int32_t> misplaced_rows(const RotationCode& code, double acceptance, uint64_t seed) {
  const uint64_t key = noise_key(seed, kMissStream);
  std::vector<int32_t> rows(static_cast<size_t>(code.vocab()));
  std::vector<int32_t> missed;
  for (int32_t begin = 0; begin < code.vocab(); begin += code.block()) {
    const int32_t end = std::min(begin + code.block(), code.vocab());
    missed.clear();
    for (int32_t token = begin; token < end; ++token) {
      rows[static_cast<size_t>(token)] = token;
      if (keyed_uniform(key, static_cast<uint64_t>(token)) >= acceptance) missed.push_back(token);
    }
    for (size_t i = 0; i < missed.size(); ++i) {
      const int32_t other = missed[(i + 1) % missed.size()];
      rows[static_cast<size_t>(missed[i])] = missed.size() == 1 ? ~other : other;
    }
  }
  return rows;
}

}  // namespace slip::synth
