// The sampler's definition written down plainly: full sorts, the C library's exponential, noise for every
// token. The real sampler must pick the same token.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/noise.h"
#include "sample/sampler.h"

namespace slip::sample::naive {

inline std::vector<float> adjusted(std::span<const float> logits, const Context& context, const Options& o) {
  std::vector<float> values(logits.begin(), logits.end());
  for (const LogitBias& bias : o.logit_bias) values[static_cast<size_t>(bias.id)] += bias.value;
  const size_t length = context.length();
  std::vector<int> seen, written;  // of the window: all of it, and what the model wrote
  for (size_t i = 0; i < length; ++i) {
    if (o.penalty_window >= 0 && length - i > static_cast<size_t>(o.penalty_window)) continue;
    seen.push_back(context.token(i));
    if (i >= context.prompt_tokens) written.push_back(context.token(i));
  }
  for (size_t id = 0; id < values.size(); ++id) {
    const auto times = [&](const std::vector<int>& in) {
      return std::count(in.begin(), in.end(), static_cast<int>(id));
    };
    if (times(seen) > 0)
      values[id] = values[id] > 0 ? values[id] / o.repetition_penalty : values[id] * o.repetition_penalty;
    if (times(written) > 0) {
      values[id] -= static_cast<float>(times(written)) * o.frequency_penalty;
      values[id] -= o.presence_penalty;
    }
  }
  for (const int id : o.suppressed) values[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < values.size(); ++id) {
    if (context.mask != nullptr && !context.mask->allows(static_cast<int>(id)))
      values[id] = -std::numeric_limits<float>::infinity();
  }
  return values;
}

inline int sample(std::span<const float> logits, const Context& context, const Options& o) {
  const std::vector<float> values = adjusted(logits, context, o);
  std::vector<int> order;
  for (size_t id = 0; id < values.size(); ++id) {
    if (values[id] > -std::numeric_limits<float>::infinity()) order.push_back(static_cast<int>(id));
  }
  const auto value = [&](int id) { return values[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return value(a) > value(b); });
  if (o.temperature == 0) return order.front();

  const float max = value(order.front());
  const auto x = [&](int id) { return (static_cast<double>(value(id)) - max) * (1.0 / o.temperature); };
  if (o.top_k > 0 && order.size() > static_cast<size_t>(o.top_k)) order.resize(static_cast<size_t>(o.top_k));
  if (o.top_p < 1) {
    double total = 0, sum = 0;
    for (const int id : order) total += std::exp(x(id));
    size_t kept = 0;
    while (sum < o.top_p * total && kept < order.size()) sum += std::exp(x(order[kept++]));
    order.resize(kept);
  }
  if (o.min_p > 0)
    std::erase_if(order, [&](int id) { return x(id) < std::log(static_cast<double>(o.min_p)); });

  const uint64_t key = noise_key(o.seed, static_cast<uint64_t>(context.position));
  const auto score = [&](int id) {
    return x(id) - std::log(-std::log(keyed_uniform(key, static_cast<uint64_t>(id))));
  };
  std::sort(order.begin(), order.end());
  return *std::max_element(order.begin(), order.end(), [&](int a, int b) { return score(a) < score(b); });
}

/// Log-softmax of the raw logits.
inline double logprob(std::span<const float> logits, int id) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return logits[static_cast<size_t>(id)] - max - std::log(sum);
}

/// A row with the look of a model's output: a broad bell and a few favourites. `step` > 0 rounds values to
/// multiples of it, which makes ties.
inline std::vector<float> row(int vocab, uint64_t seed, double spread = 3, double step = 0) {
  std::vector<float> values(static_cast<size_t>(vocab));
  const uint64_t key = noise_key(seed, 77);
  for (size_t i = 0; i < values.size(); ++i) {
    const double bell = std::sqrt(-2 * std::log(keyed_uniform(key, 2 * i))) *
                        std::cos(6.283185307179586 * keyed_uniform(key, 2 * i + 1));
    const double favourite = keyed_bits(key, ~i) % 1000 < 3 ? 5 : 0;
    const double logit = spread * (bell + favourite);
    values[i] = static_cast<float>(step > 0 ? std::round(logit / step) * step : logit);
  }
  return values;
}

}  // namespace slip::sample::naive
