// The bounds that executors are judged with (reference/sensitivity.h), on fresh cases: one that only rounds
// stays below them, one with a broken norm, rotation or mask does not. SLIP_TEST_ROUNDS=10 takes ten times as
// many cases.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "kv/stored_row.h"
#include "reference/follow.h"
#include "reference/sensitivity.h"
#include "support/fresh_case.h"
#include "support/rounds.h"
#include "synth/synthetic.h"

namespace slip::backend::cpu {
namespace {

using reference::ActivationRounding;
using reference::Forward;
using reference::Probe;

struct Subject {
  const checkpoint::Checkpoint& model;
  std::vector<int> tokens;
};

/// An error and what is allowed of it; below the bound is 0 to 1.
struct Judged {
  double error = 0, allowed = 0;
  double share() const { return error / allowed; }
};

/// The backend one token at a time, and after each token what `after` does with its results.
template <typename After>
void run_backend(const Subject& subject, size_t tokens, kv::Storage storage, ActivationMode mode,
                 After&& after) {
  CpuOptions options;
  options.threads = 1;
  options.max_rows = 16;
  options.kv_storage = storage;
  options.activations = mode;
  const auto backend = load(subject.model.config, subject.model.weights, options);
  const auto cache = backend->new_cache();
  cache->reserve(static_cast<int64_t>(tokens));
  for (size_t i = 0; i < tokens; ++i) {
    const std::vector<Row> rows{{.token = subject.tokens[i], .position = cache->length()}};
    kv::Cache* caches[] = {cache.get()};
    cache->stage(1);
    const Output out = backend->run({rows, caches});
    cache->commit(1);
    after(subject.tokens[i], out, *cache);
  }
}

void append(std::vector<float>& all, std::span<const float> row) {
  all.insert(all.end(), row.begin(), row.end());
}

/// Floats throughout. `broken` is the reference's idea of the model.
Judged judge_floats(const Subject& subject, const model::Program& right, const model::Program& broken) {
  const Probe probe{.noise = reference::float_noise(subject.model.config)};
  const size_t tokens = reference::clear_tokens(right, subject.tokens, probe);
  Forward forward(broken);
  reference::Sequence sequence;
  std::vector<float> got, want;
  run_backend(subject, tokens, kv::Storage::kF32, ActivationMode::kFloat,
              [&](int token, const Output& out, const kv::Cache&) {
                append(got, {out.logits, static_cast<size_t>(subject.model.config.vocab)});
                append(want, forward.step(sequence, token).logits);
              });
  return {reference::relative_error(got, want),
          reference::allowed_error(right, std::span(subject.tokens).first(tokens), probe).logits};
}

/// A cache of bf16 that the reference follows: what was stored is judged, and the logits that came of it.
struct JudgedCache {
  Judged stored, logits;
  double share() const { return std::max(stored.share(), logits.share()); }
};
JudgedCache judge_cache(const Subject& subject, const model::Program& right, const model::Program& broken) {
  const Probe probe{.noise = reference::float_noise(subject.model.config), .shared_cache = true};
  const size_t tokens = reference::clear_tokens(right, subject.tokens, probe);
  Forward forward(broken);
  reference::Sequence sequence;
  const kv::Cache* filled = nullptr;
  reference::Follower follower(forward, broken.config, [&](int layer, int part, int position) {
    return kv::stored_row(*filled, layer, part, position);
  });
  std::vector<float> got, want;
  run_backend(subject, tokens, kv::Storage::kBf16, ActivationMode::kFloat,
              [&](int token, const Output& out, const kv::Cache& cache) {
                filled = &cache;
                append(got, {out.logits, static_cast<size_t>(subject.model.config.vocab)});
                append(want, forward.step(sequence, token).logits);
                follower.next();
              });
  const double allowed =
      reference::allowed_error(right, std::span(subject.tokens).first(tokens), probe).logits;
  return {.stored = {follower.worst(), reference::stored_error(allowed)},
          .logits = {reference::relative_error(got, want), allowed}};
}

/// Activations of 16 bits, those of the head of 8: the hidden state is judged, and the head by itself.
JudgedCache judge_rounded(const Subject& subject, const model::Program& right, const model::Program& broken) {
  const auto rounds = [](Forward& forward) {
    forward.rounding = ActivationRounding::kBits16;
    forward.head_rounding = ActivationRounding::kBits8;
  };
  const Probe probe{.noise = reference::float_noise(subject.model.config), .configure = rounds};
  const size_t tokens = reference::clear_tokens(right, subject.tokens, probe);
  Forward forward(broken);
  rounds(forward);
  reference::Sequence sequence;
  std::vector<float> hidden, want_hidden, logits, want_logits;
  run_backend(subject, tokens, kv::Storage::kF32, ActivationMode::kInt16,
              [&](int token, const Output& out, const kv::Cache&) {
                const std::vector<float> state(out.hidden, out.hidden + subject.model.config.hidden);
                append(hidden, state);
                append(want_hidden, forward.step(sequence, token).hidden);
                append(logits, {out.logits, static_cast<size_t>(subject.model.config.vocab)});
                append(want_logits, forward.logits_of(state));
              });
  return {.stored = {reference::relative_error(hidden, want_hidden),
                     reference::allowed_error(right, std::span(subject.tokens).first(tokens), probe).hidden},
          .logits = {reference::relative_error(logits, want_logits), reference::kMargin * probe.noise}};
}

/// Calls `judge(subject, right program)` for fresh cases of every architecture.
template <typename Judge>
void for_fresh_cases(int seeds, Judge&& judge) {
  for (const char* name : {"e2b", "dense", "moe", "unified"}) {
    for (int seed = 1; seed <= test::rounds(seeds); ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      const test::FreshCase fresh(name, static_cast<uint64_t>(seed));
      const model::Program program =
          model::build_program(fresh.checkpoint->config, fresh.checkpoint->weights);
      judge(Subject{*fresh.checkpoint, fresh.prompt}, program);
    }
  }
}
template <typename Judge>
void for_quantised_cases(Judge&& judge) {
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}) {
    for (int seed = 1; seed <= test::rounds(3); ++seed) {
      SCOPED_TRACE(std::string(shape) + ", seed " + std::to_string(seed));
      const auto made = synth::synthesize(
          {.shape = shape, .bits = seed % 2 == 0 ? 8 : 4, .seed = 100 + static_cast<uint64_t>(seed)});
      const model::Program program = model::build_program(made->config, made->weights);
      Subject subject{*made, {}};
      for (uint64_t i = 0; i < 40; ++i) {
        subject.tokens.push_back(static_cast<int>(keyed_bits(noise_key(static_cast<uint64_t>(seed), 3), i) %
                                                  static_cast<uint64_t>(made->config.vocab)));
      }
      judge(subject, program);
    }
  }
}

TEST(Bounds, hold_for_an_executor_in_floats) {
  for_fresh_cases(3, [](const Subject& subject, const model::Program& program) {
    const Judged judged = judge_floats(subject, program, program);
    EXPECT_LT(judged.share(), 1) << judged.error << " of " << judged.allowed;
  });
}

TEST(Bounds, hold_for_a_cache_of_bf16) {
  for_fresh_cases(3, [](const Subject& subject, const model::Program& program) {
    const JudgedCache judged = judge_cache(subject, program, program);
    EXPECT_LT(judged.logits.share(), 1) << judged.logits.error << " of " << judged.logits.allowed;
    EXPECT_LT(judged.stored.share(), 1) << judged.stored.error << " of " << judged.stored.allowed;
  });
}

TEST(Bounds, hold_for_activations_of_16_bits) {
  for_quantised_cases([](const Subject& subject, const model::Program& program) {
    const JudgedCache judged = judge_rounded(subject, program, program);
    EXPECT_LT(judged.logits.share(), 1) << judged.logits.error << " of " << judged.logits.allowed;
    EXPECT_LT(judged.stored.share(), 1) << judged.stored.error << " of " << judged.stored.allowed;
  });
}

/// A model with one fault in one layer.
struct Broken {
  const char* what;
  std::function<void(model::Config&, model::Weights&)> break_it;
};
const Broken kBroken[] = {
    {"the norm of a layer's queries is 1 % too large",
     [](model::Config&, model::Weights& weights) {
       for (float& x : weights.layers[1].q_norm) x *= 1.01f;
     }},
    {"one weight of a norm is 1 % off",
     [](model::Config&, model::Weights& weights) { weights.layers[0].pre_mlp_norm[3] *= 1.01f; }},
    {"the rotation of a layer is 1 % too fast",
     [](model::Config& config, model::Weights&) { config.layers[0].rope_theta /= 1.05; }},
    {"sliding layers see one key more", [](model::Config& config, model::Weights&) { ++config.window; }},
};

template <typename Judge>
void expect_noticed(const Subject& subject, const model::Program& right, Judge&& judge) {
  for (const Broken& one : kBroken) {
    model::Config config = subject.model.config;
    model::Weights weights = subject.model.weights;
    one.break_it(config, weights);
    EXPECT_GT(judge(subject, right, model::build_program(config, weights)).share(), 1) << one.what;
  }
}

TEST(Bounds, notice_one_fault_of_an_executor_in_floats) {
  for_fresh_cases(1, [](const Subject& subject, const model::Program& program) {
    expect_noticed(subject, program, judge_floats);
  });
}

TEST(Bounds, notice_one_fault_behind_a_cache_of_bf16) {
  for_fresh_cases(1, [](const Subject& subject, const model::Program& program) {
    expect_noticed(subject, program, judge_cache);
  });
}

}  // namespace
}  // namespace slip::backend::cpu
