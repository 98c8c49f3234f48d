#include "reference/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/noise.h"

namespace slip::reference {
namespace {

struct Run {
  std::vector<std::vector<float>> fields;      // [phase][tokens * ...]
  std::vector<float> logits, hidden;           // [tokens, ...]
  std::vector<std::vector<KeyValues>> stored;  // [token][layer], of one position
  std::vector<double> margins;                 // of the choice of experts, [token]
};

// Adds noise of variance 1 (times the size) without favouring any direction.
void add_noise(std::vector<float>& field, double noise, uint64_t key, uint64_t& count) {
  double squares = 0;
  for (const float x : field) squares += static_cast<double>(x) * x;
  const double size =
      noise * std::sqrt(12 * squares / static_cast<double>(std::max<size_t>(field.size(), 1)));
  for (float& x : field) x += static_cast<float>(size * (keyed_uniform(key, count++) - 0.5));
}

class Prober {
 public:
  Prober(const model::Program& program, std::span<const int> tokens, const Probe& probe)
      : program_(program), tokens_(tokens), probe_(probe) {}

  /// `seed` 0 = without noise.
  Run run(uint64_t seed, const Run* shared) const {
    Run result;
    Forward forward(program_);
    if (probe_.configure) probe_.configure(forward);
    uint64_t count = 0;
    if (seed != 0) {
      forward.disturb = [&, key = noise_key(seed, 1)](const model::Phase&, std::vector<float>& field) {
        add_noise(field, probe_.noise, key, count);
      };
    }
    result.fields.resize(program_.phases.size());
    forward.observe = [&](const model::Phase& phase, const std::vector<float>& field) {
      std::vector<float>& all = result.fields[static_cast<size_t>(&phase - program_.phases.data())];
      all.insert(all.end(), field.begin(), field.end());
    };
    size_t token = 0;
    if (shared != nullptr) {
      forward.store = [&](int layer, Row& keys, Row& values) {
        const KeyValues& same = shared->stored[token][static_cast<size_t>(layer)];
        keys = same.keys[0];
        values = same.values[0];
      };
    } else if (probe_.shared_cache) {
      forward.store = [&](int layer, Row& keys, Row& values) {
        round_to_bf16(values);
        if (!program_.config.layers[static_cast<size_t>(layer)].k_is_v) round_to_bf16(keys);
        auto& stored = result.stored.back()[static_cast<size_t>(layer)];
        stored.keys = {keys};
        stored.values = {values};
      };
    }
    Sequence sequence;
    for (token = 0; token < tokens_.size(); ++token) {
      result.stored.emplace_back(program_.config.layers.size());
      const Result one = forward.step(sequence, tokens_[token]);
      result.logits.insert(result.logits.end(), one.logits.begin(), one.logits.end());
      result.hidden.insert(result.hidden.end(), one.hidden.begin(), one.hidden.end());
      result.margins.push_back(forward.routing_margin);
    }
    return result;
  }

 private:
  const model::Program& program_;
  std::span<const int> tokens_;
  const Probe& probe_;
};

}  // namespace

double float_noise(const model::Config& config, int positions) {
  int longest = std::max(config.hidden, config.expert_intermediate);
  for (const model::LayerConfig& layer : config.layers)
    longest = std::max({longest, layer.intermediate, layer.q_size()});
  return std::ldexp(1.0, -24) * (std::sqrt(static_cast<double>(longest)) + positions);
}

Allowed allowed_error(const model::Program& program, std::span<const int> tokens, const Probe& probe) {
  const Prober prober(program, tokens, probe);
  const Run exact = prober.run(0, nullptr);
  Allowed allowed;
  for (int i = 1; i <= kProbes; ++i) {
    const Run moved = prober.run(static_cast<uint64_t>(i), probe.shared_cache ? &exact : nullptr);
    allowed.logits = std::max(allowed.logits, relative_error(moved.logits, exact.logits));
    allowed.hidden = std::max(allowed.hidden, relative_error(moved.hidden, exact.hidden));
  }
  return {kMargin * allowed.logits, kMargin * allowed.hidden};
}

double allowed_error(const std::function<std::vector<float>(const Disturb&)>& run, double noise) {
  const std::vector<float> exact = run({});
  double allowed = 0;
  for (int i = 1; i <= kProbes; ++i) {
    uint64_t count = 0;
    const uint64_t key = noise_key(static_cast<uint64_t>(i), 2);
    const std::vector<float> moved =
        run([&](std::vector<float>& field) { add_noise(field, noise, key, count); });
    SLIP_CHECK(moved.size() == exact.size());
    std::vector<float> got, want;
    for (size_t j = 0; j < exact.size(); ++j) {
      if (!std::isfinite(moved[j]) || !std::isfinite(exact[j])) continue;
      got.push_back(moved[j]);
      want.push_back(exact[j]);
    }
    allowed = std::max(allowed, relative_error(got, want));
  }
  return kMargin * allowed;
}

std::vector<double> allowed_phase_errors(const model::Program& program, std::span<const int> tokens,
                                         const Probe& probe) {
  const Prober prober(program, tokens, probe);
  const Run exact = prober.run(0, nullptr);
  std::vector<double> allowed(program.phases.size());
  for (int i = 1; i <= kProbes; ++i) {
    const Run moved = prober.run(static_cast<uint64_t>(i), probe.shared_cache ? &exact : nullptr);
    for (size_t p = 0; p < allowed.size(); ++p) {
      if (!exact.fields[p].empty())
        allowed[p] = std::max(allowed[p], kMargin * relative_error(moved.fields[p], exact.fields[p]));
    }
  }
  return allowed;
}

size_t clear_tokens(const model::Program& program, std::span<const int> tokens, const Probe& probe) {
  if (program.config.experts == 0) return tokens.size();
  const Prober prober(program, tokens, probe);
  const Run exact = prober.run(0, nullptr);
  size_t clear = tokens.size();
  for (int i = 1; i <= kProbes; ++i) {
    const Run moved = prober.run(static_cast<uint64_t>(i), probe.shared_cache ? &exact : nullptr);
    for (size_t t = 0; t < clear; ++t) {
      if (kMargin * std::abs(moved.margins[t] - exact.margins[t]) > exact.margins[t]) clear = t;
    }
  }
  return clear;
}

double relative_error(std::span<const float> got, std::span<const float> want) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != want.size() || want.empty()) return kInfinity;
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  const double error = std::sqrt(difference / size);
  return std::isnan(error) ? kInfinity : error;
}

}  // namespace slip::reference
