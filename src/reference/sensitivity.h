// Sensitivity: how far results may be off because of rounding alone. A bound on an error must come from the
// arithmetic, not from the errors seen so far; but how much a network amplifies a rounding depends on its
// weights and its input, by a factor of 1 or of 1000. So it is measured on the case itself: the reference
// runs a few times with noise of the size of one executor's rounding added to the output of every phase, and
// what that moves is what rounding may move.
//
// The noise. A sum of n products in floats, in any order, is off by about u sqrt(n) of its size, u = 2^-24
// (Higham and Mary, "A new approach to probabilistic rounding error analysis"). float_noise() takes the
// longest sum of the model. Who computes the angles of the rotary embedding in floats has an error of u times
// the angle besides, which is up to the position.
//
// The margin. Errors of an executor and those made here are two draws from one distribution, so one may
// exceed the largest of kProbes others, but not by much: kMargin times it is allowed. What is broken (a norm,
// a rotation, a mask) is off by far more; tests/backend/bounds_test.cpp shows both on fresh cases.
//
// Cost: kProbes + 1 runs of the reference.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "reference/forward.h"

namespace slip::reference {

inline constexpr int kProbes = 4;
inline constexpr double kMargin = 8;

/// Of everything a run gives out, in relative L2.
struct Allowed {
  double logits = 0;
  double hidden = 0;
};

struct Probe {
  double noise = 0;  // relative to the root mean square of a phase's output
  /// Options of a run (bf16_cache, rounding).
  std::function<void(Forward&)> configure = {};
  /// Whether noise must not reach what is stored: for executors whose cache the reference follows.
  bool shared_cache = false;
};

/// What a float executor rounds by; `positions`: of angles computed in floats, 0 = in doubles.
double float_noise(const model::Config& config, int positions = 0);

/// How far an executor may be from the reference with these tokens. Of a mixture this holds as long as both
/// choose the same experts, see clear_tokens().
Allowed allowed_error(const model::Program& program, std::span<const int> tokens, const Probe& probe);

/// The same of what every phase writes, taken over all tokens; phases that write nothing have 0.
std::vector<double> allowed_phase_errors(const model::Program& program, std::span<const int> tokens,
                                         const Probe& probe);

/// How many tokens of a text a mixture routes so clearly that rounding by `probe` cannot change an expert:
/// all before the first whose closest choice is closer than the noise moves it. All of them without experts.
size_t clear_tokens(const model::Program& program, std::span<const int> tokens, const Probe& probe);

/// The same of a network that is no Program, such as a drafter: `run` computes what is judged, and passes its products
/// through the function it is given. Infinite scores, of tokens that were left out, do not count.
double allowed_error(const std::function<std::vector<float>(const Disturb&)>& run, double noise);

/// Of a stored key or value beyond its rounding, over the root mean square of its vector (follow.h): what the
/// logits are allowed, as errors only grow on the way to them, times 4, as one value may have four times the
/// share of the average.
inline double stored_error(double logits) {
  return 4 * logits;
}

/// Root of the summed squares of the differences over that of `want`; infinity where the two have not the
/// same size, are empty, or are no numbers.
double relative_error(std::span<const float> got, std::span<const float> want);

}  // namespace slip::reference
