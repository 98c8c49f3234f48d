// Speculation cannot be seen: the identity suite over a model that is a hash, with drafters of every kind.
#include <gtest/gtest.h>

#include "engine/fake_drafting.h"
#include "support/identity_suite.h"

namespace slip::engine {
namespace {

using speculate::DepthOptions;
using test::IdentitySuite;

// One suite per kind of model: whole history (nothing repeats), last token (cycles soon). Plain results are
// computed once.
struct Bench {
  explicit Bench(int order) : backend(64, fake_config(), order) {
    backend.set_taps(std::vector<int>{0, 0});
    suite = std::make_unique<IdentitySuite>(backend, IdentitySuite::Settings{});
  }
  FakeBackend backend;
  std::unique_ptr<IdentitySuite> suite;
};

Bench& bench(int order) {
  static Bench whole(0), repeating(1);
  return order == 0 ? whole : repeating;
}

IdentitySuite::Result expect_identical(Bench& bench, const IdentitySuite::NewSpeculator& speculator) {
  IdentitySuite::Result result = bench.suite->differences(speculator);
  for (const std::string& difference : result.differences) ADD_FAILURE() << difference;
  return result;
}

TEST(Identity, with_an_assistant_at_every_depth) {
  for (const int order : {0, 1}) {
    Bench& bench_ = bench(order);
    for (int depth = 1; depth <= 8; ++depth) {
      FakeAssistant assistant(bench_.backend, 0.7, 3);  // fewer rows than sequences
      const auto result = expect_identical(bench_, [&] {
        return fake_speculator(40, {.fixed = depth}, std::make_unique<speculate::MtpDrafter>(assistant));
      });
      EXPECT_GT(result.accepted, result.drafted / 8);
      EXPECT_LT(result.accepted, result.drafted);
      EXPECT_TRUE(result.failures.empty());
    }
  }
}

TEST(Identity, with_an_assistant_that_is_right_by_construction) {
  FakeAssistant assistant(bench(0).backend, 1);
  const auto result = expect_identical(bench(0), [&] {
    return fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(assistant));
  });
  // It knows the model, draws with the same noise, and sees the same history: never wrong.
  EXPECT_GT(result.drafted, 1000);
  EXPECT_EQ(result.accepted, result.drafted);
}

TEST(Identity, with_an_assistant_that_lies) {
  FakeAssistant assistant(bench(0).backend, 0);
  const auto result = expect_identical(bench(0), [&] {
    return fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(assistant));
  });
  EXPECT_LT(result.accepted, result.drafted / 4);
}

TEST(Identity, with_a_block_drafter) {
  for (const int order : {0, 1}) {
    for (const int depth : {1, 4, 7, 12}) {
      FakeBlockDrafter network(bench(order).backend, 0.9, 8, 12);
      const auto result = expect_identical(bench(order), [&] {
        return fake_speculator(40, {.fixed = depth}, std::make_unique<speculate::DflashDrafter>(network));
      });
      EXPECT_GT(result.accepted, 200);
      EXPECT_LT(result.accepted, result.drafted);
      EXPECT_TRUE(result.failures.empty());
    }
  }
}

TEST(Identity, with_lookups) {
  const auto result = expect_identical(bench(1), [] {
    return fake_speculator(40, {.fixed = 6}, std::make_unique<speculate::SuffixDrafter>());
  });
  EXPECT_GT(result.accepted, 100) << result.drafted;
}

TEST(Identity, with_everybody_and_by_measurement) {
  for (const int order : {0, 1}) {
    for (const int fixed : {-1, 6}) {
      FakeAssistant assistant(bench(order).backend, 0.6);
      FakeBlockDrafter network(bench(order).backend, 0.8);
      const auto result = expect_identical(bench(order), [&] {
        return fake_speculator(40, {.fixed = fixed}, std::make_unique<speculate::MtpDrafter>(assistant),
                               std::make_unique<speculate::DflashDrafter>(network),
                               std::make_unique<speculate::SuffixDrafter>());
      });
      EXPECT_TRUE(result.failures.empty());
      EXPECT_GT(result.accepted, fixed > 0 ? 200 : 0);
    }
  }
}

// Plain results are from logits of the whole vocabulary; with lists nobody may see a difference, whether the
// model or the drafters have them.
TEST(Identity, with_lists_of_the_best_tokens_instead_of_logits) {
  Bench bench_(0);
  for (const bool model : {true, false}) {
    bench_.backend.lists = model;
    bench_.backend.listed = 0;
    FakeAssistant assistant(bench_.backend, 0.7, 3);
    FakeBlockDrafter network(bench_.backend, 0.9, 8, 12);
    assistant.lists = network.lists = true;
    for (const bool steps : {true, false}) {
      const auto result = expect_identical(bench_, [&] {
        if (steps)
          return fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(assistant));
        return fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::DflashDrafter>(network));
      });
      EXPECT_TRUE(result.failures.empty());
      EXPECT_GT(result.accepted, result.drafted / 8);
    }
    EXPECT_EQ(bench_.backend.listed > 500, model) << bench_.backend.listed;
    EXPECT_GT(assistant.listed, 500);
    EXPECT_GT(network.listed, 500);
  }
}

TEST(Identity, with_drafters_that_are_silent_talk_too_much_or_talk_rubbish) {
  const std::vector<ScriptedDrafter::Script> scripts = {
      [](std::span<const int>, int) { return std::vector<int>(); },
      [](std::span<const int>, int) { return std::vector<int>(200, 3); },
      [](std::span<const int> tokens, int) {
        return std::vector<int>{tokens.back(), -1, 40, 1 << 30};
      },
      [](std::span<const int>, int) { return std::vector<int>{-7}; },
  };
  for (const auto& script : scripts) {
    for (const auto effort :
         {speculate::Effort::kSteps, speculate::Effort::kBlock, speculate::Effort::kLookup}) {
      const auto result = expect_identical(bench(0), [&] {
        return fake_speculator(40, {.fixed = 5}, std::make_unique<ScriptedDrafter>(script, effort));
      });
      EXPECT_TRUE(result.failures.empty());
    }
  }
}

TEST(Identity, with_drafters_that_fail_in_the_middle) {
  const auto result = expect_identical(bench(0), [] {
    auto calls = std::make_shared<int>(0);
    return fake_speculator(
        40, {.fixed = 5},
        std::make_unique<ScriptedDrafter>([calls](std::span<const int>, int) -> std::vector<int> {
          if (++*calls == 4) fail(ErrorKind::kRuntime, "out of ideas");
          return {1, 2, 3};
        }));
  });
  ASSERT_FALSE(result.failures.empty());
  EXPECT_EQ(result.failures[0], "the scripted drafter failed and is not used any more: out of ideas");
}

// Makes the model agree with one guess it would have rejected: one rejected token is emitted, and the rest
// follows from it.
class ForgingBackend final : public backend::Backend {
 public:
  explicit ForgingBackend(FakeBackend& inner) : inner_(inner) {}
  const model::Config& config() const override { return inner_.config(); }
  int max_rows() const override { return inner_.max_rows(); }
  const kv::Layout& kv_layout() const override { return inner_.kv_layout(); }
  kv::PagePool& pages() override { return inner_.pages(); }
  std::unique_ptr<kv::Cache> new_cache() override { return inner_.new_cache(); }
  size_t streamed_bytes() const override { return 1; }
  size_t resident_bytes() const override { return 1; }
  double measure_read_bandwidth() override { return 1; }
  std::string description() const override { return "forging"; }

  backend::Output run(const backend::Batch& batch) override {
    const backend::Output output = inner_.run(batch);
    const int vocab = inner_.config().vocab;
    int row = 0;
    for (size_t i = 0; i + 1 < batch.rows.size(); ++i) {
      if (!batch.rows[i].output) continue;
      float* logits = const_cast<float*>(output.logits) + row++ * vocab;
      const bool guessed = batch.rows[i + 1].sequence == batch.rows[i].sequence;
      const int guess = batch.rows[i + 1].token;
      if (forged || !guessed || std::max_element(logits, logits + vocab) - logits == guess) continue;
      logits[guess] = 100;
      forged = true;
    }
    return output;
  }
  bool forged = false;

 private:
  FakeBackend& inner_;
};

TEST(Identity, a_single_rejected_token_that_gets_through_is_found) {
  FakeBackend inner;
  ForgingBackend forging(inner);
  IdentitySuite suite(forging, {});
  EXPECT_FALSE(forging.forged);  // plain decoding has no guesses
  FakeAssistant assistant(inner, 0.5);
  const auto result = suite.differences(
      [&] { return fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(assistant)); });
  EXPECT_TRUE(forging.forged);
  EXPECT_EQ(result.differences.size(), 1u);
  EXPECT_NE(result.differences.at(0).find("greedy"), std::string::npos) << result.differences.at(0);
}

}  // namespace
}  // namespace slip::engine
