#include "reference/assistant.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/assistant.h"
#include "checkpoint/requantise.h"
#include "reference/golden.h"
#include "reference/sensitivity.h"
#include "tensor/memory_tensor.h"

namespace slip::reference {
namespace {

using test::argmax;
using test::Golden;

constexpr float kUnscored = -std::numeric_limits<float>::infinity();

void append(Row& all, const Row& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Of scores that are not -infinity: transformers gives the others the least of them, less one.
double scored_error(const Row& got, const Row& want) {
  Row mine, theirs;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (got[i] == kUnscored) continue;
    mine.push_back(got[i]);
    theirs.push_back(want[i]);
  }
  return got.size() == want.size() ? relative_error(mine, theirs) : INFINITY;
}

/// One draft round of a golden case: the prompt is in the cache, the first greedy token is not.
struct Round {
  explicit Round(const std::string& name)
      : golden(name),
        assistant(checkpoint::open_assistant(golden.folder + "/assistant", golden.target->config)),
        run(*golden.target),
        first{.token = golden.tokens("greedy_tokens").front(), .hidden = {}} {
    run.feed(golden.prompt());
    first.hidden = run.hidden;
    first.position = first.keys = run.sequence.length;
    first.extra_keys = 1;  // transformers' rule
  }

  std::vector<Result> draft(size_t count) { return draft(assistant->weights, first, count); }
  std::vector<Result> draft(const model::AssistantWeights& weights, AssistantStep step, size_t count) {
    return draft(run, weights, std::move(step), count, {});
  }
  std::vector<Result> draft(const test::TargetRun& target, const model::AssistantWeights& weights,
                            AssistantStep step, size_t count, const Disturb& disturb) {
    Assistant network(assistant->config, weights, golden.target->config, golden.target->weights);
    network.disturb(disturb);
    std::vector<Result> results;
    for (size_t i = 0; i < count; ++i) {
      const Result& result = results.emplace_back(network.step(target.sequence, step));
      step.token = argmax(result.logits);
      step.hidden = result.hidden;
    }
    return results;
  }
  /// How far the first step is from the golden one.
  double first_error(const model::AssistantWeights& weights, const AssistantStep& step) {
    return scored_error(draft(weights, step, 1).front().logits, golden.rows("draft_logits").front());
  }
  /// What rounding may move in `count` steps, the target's on the way to them included.
  double allowed(Row Result::*of, size_t count) {
    const std::vector<int> prompt = golden.prompt();
    const int positions = static_cast<int>(prompt.size() + count);
    const double noise = std::max(float_noise(golden.target->config, positions),
                                  float_noise(assistant->config.text, positions));
    return allowed_error(
        [&](const Disturb& disturb) {
          test::TargetRun target(*golden.target, disturb);
          target.feed(prompt);
          AssistantStep step = first;
          step.hidden = target.hidden;
          Row all;
          for (const Result& result : draft(target, assistant->weights, step, count, disturb))
            append(all, result.*of);
          return all;
        },
        noise);
  }
  double bound() { return allowed(&Result::logits, 1); }

  Golden golden;
  std::unique_ptr<checkpoint::AssistantCheckpoint> assistant;
  test::TargetRun run;
  AssistantStep first;
};

TEST(ReferenceAssistant, DraftsWhatTransformersDraftsInEveryGoldenCase) {
  for (const std::string& name : test::kGoldenCases) {
    SCOPED_TRACE(name);
    Round round(name);
    const auto logits = round.golden.rows("draft_logits");
    const auto hidden = round.golden.rows("draft_hidden");
    const auto tokens = round.golden.tokens("draft_tokens");
    ASSERT_EQ(logits.size(), tokens.size());
    ASSERT_EQ(hidden.size(), tokens.size() + 1);
    Row got_logits, want_logits, got_hidden = round.first.hidden, want_hidden = hidden.front();
    const auto results = round.draft(tokens.size());
    for (size_t i = 0; i < results.size(); ++i) {
      append(got_logits, results[i].logits);
      append(want_logits, logits[i]);
      append(got_hidden, results[i].hidden);
      append(want_hidden, hidden[i + 1]);
      EXPECT_EQ(argmax(results[i].logits), tokens[i]) << "step " << i;
    }
    EXPECT_LT(scored_error(got_logits, want_logits), round.allowed(&Result::logits, tokens.size()));
    EXPECT_LT(relative_error(got_hidden, want_hidden), round.allowed(&Result::hidden, tokens.size()));
  }
}

TEST(ReferenceAssistant, ACentroidHeadScoresOnlyTheTokensOfTheKeptClusters) {
  Round round("e2b");
  const model::AssistantConfig& config = round.assistant->config;
  ASSERT_GT(config.centroids, 0);
  const auto scored = [&](const Result& result) {
    return config.text.vocab - std::count(result.logits.begin(), result.logits.end(), kUnscored);
  };
  for (const Result& result : round.draft(3)) {
    EXPECT_EQ(scored(result), config.kept_centroids * (config.text.vocab / config.centroids));
  }
}

// The golden comparison can only be trusted if it notices each thing that ports of this network got wrong.

TEST(ReferenceAssistant, TheGoldenComparisonNoticesAnotherPosition) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    for (const int shift : {-1, 1}) {
      AssistantStep step = round.first;
      step.position += shift;
      EXPECT_GT(round.first_error(round.assistant->weights, step), round.bound()) << name;
    }
  }
}

TEST(ReferenceAssistant, TheGoldenComparisonNoticesAMissingOrExtraKey) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    AssistantStep step = round.first;
    step.extra_keys = 0;
    EXPECT_GT(round.first_error(round.assistant->weights, step), round.bound()) << name;
    step = round.first;
    --step.keys;
    EXPECT_GT(round.first_error(round.assistant->weights, step), round.bound()) << name;
  }
}

TEST(ReferenceAssistant, TheGoldenComparisonNoticesAHiddenStateBeforeTheFinalNorm) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    AssistantStep step = round.first;
    step.hidden = round.run.layer_outputs.back().at(round.golden.target->config.layer_count() - 1);
    EXPECT_GT(round.first_error(round.assistant->weights, step), round.bound()) << name;
  }
}

TEST(ReferenceAssistant, TheGoldenComparisonNoticesTheOtherOrderOfEmbeddingAndHidden) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    const model::Matrix& right = round.assistant->weights.pre_projection;
    tensor::MemoryTensor swapped("swapped", tensor::DType::kF32, {right.rows, right.cols});
    for (int64_t r = 0; r < right.rows; ++r) {
      Row row = read_row(right, r);
      std::rotate(row.begin(), row.begin() + right.cols / 2, row.end());
      std::memcpy(swapped.data() + r * right.cols * 4, row.data(), row.size() * 4);
    }
    model::AssistantWeights weights = round.assistant->weights;
    weights.pre_projection.weight = &swapped;
    weights.pre_projection.bits = 32;
    EXPECT_GT(round.first_error(weights, round.first), 10 * round.bound()) << name;
  }
}

TEST(ReferenceAssistant, KeepsItsLogitsNearlyWhenItsMatricesAreQuantisedToEightBits) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    const Row before = round.draft(1).front().logits;
    checkpoint::requantise(*round.assistant, 8);
    // Of these small matrices only some have columns that divide by 32.
    ASSERT_EQ(round.assistant->weights.pre_projection.encoding, tensor::Encoding::kAffine);
    ASSERT_EQ(round.assistant->weights.text.layers[0].o.encoding, tensor::Encoding::kAffine);
    const Row after = round.draft(1).front().logits;
    double difference = 0, size = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] == kUnscored || after[i] == kUnscored) continue;
      difference += std::pow(before[i] - after[i], 2);
      size += std::pow(before[i], 2);
    }
    EXPECT_LT(std::sqrt(difference / size), 0.05) << name;
    EXPECT_GT(difference, 0) << name;
  }
}

}  // namespace
}  // namespace slip::reference
