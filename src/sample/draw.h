// Draw: the argmax of x + Gumbel noise, fed with tokens in any order; the result does not depend on it.
//
// Noise costs two logarithms, so it is only computed for a token that can still win: x + noise exceeds `best`
// only if the uniform number behind it satisfies 1 - u <= e^-(best - x), and that is seen from the leading
// bits of its hash.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/noise.h"

namespace slip::sample {

/// -ln(-ln u) with u keyed by the token: softmax(x) is the distribution of argmax(x + gumbel).
inline double gumbel(uint64_t key, int id) {
  return -std::log(-std::log(keyed_uniform(key, static_cast<uint64_t>(id))));
}

class Draw {
 public:
  /// Starts with one token; the likeliest is the best choice.
  Draw(uint64_t seed, int64_t position, double x, int id)
      : key_(noise_key(seed, static_cast<uint64_t>(position))), best_(x + gumbel(key_, id)), winner_(id) {}

  /// What the complement of a token's hash must not exceed for it to win with this x; 0 = no hash is good
  /// enough.
  uint64_t limit(double x) const {
    constexpr double kLog2E = 1.4426950408889634;
    const double bits = (best_ - x) * kLog2E - 1e-6;  // the margin covers the rounding of the score
    if (!(bits < 54)) return 0;                       // 1 - u is at least 2^-53
    if (bits < 1) return ~uint64_t{0};
    return ~uint64_t{0} >> (bits < 52 ? static_cast<int>(bits) : 52);
  }
  bool passes(int id, uint64_t limit) const { return ~keyed_bits(key_, static_cast<uint64_t>(id)) <= limit; }

  void consider(double x, int id) {
    const uint64_t bound = limit(x);
    if (bound == 0 || !passes(id, bound)) return;
    const double score = x + gumbel(key_, id);
    if (score > best_ || (score == best_ && id < winner_)) {
      best_ = score;
      winner_ = id;
    }
  }

  int winner() const { return winner_; }

 private:
  const uint64_t key_;
  double best_;
  int winner_;
};

}  // namespace slip::sample
