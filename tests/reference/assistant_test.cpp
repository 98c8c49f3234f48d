#include "reference/assistant.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/assistant.h"
#include "checkpoint/requantise.h"
#include "reference/golden.h"
#include "tensor/memory_tensor.h"

namespace slip::reference {
namespace {

using test::argmax;
using test::Golden;
using test::largest_error;

constexpr double kBound = 1e-2;
constexpr float kUnscored = -std::numeric_limits<float>::infinity();

/// Transformers gives tokens that a centroid head did not score the least of the scores, less one.
Row filled(Row logits) {
  float least = std::numeric_limits<float>::infinity();
  for (const float x : logits) {
    if (x != kUnscored) least = std::min(least, x);
  }
  for (float& x : logits) {
    if (x == kUnscored) x = least - 1;
  }
  return logits;
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
    Assistant network(assistant->config, weights, golden.target->config, golden.target->weights);
    std::vector<Result> results;
    for (size_t i = 0; i < count; ++i) {
      const Result& result = results.emplace_back(network.step(run.sequence, step));
      step.token = argmax(result.logits);
      step.hidden = result.hidden;
    }
    return results;
  }
  /// How far the first step is from the golden one.
  double first_error(const model::AssistantWeights& weights, const AssistantStep& step) {
    return largest_error(filled(draft(weights, step, 1).front().logits), golden.rows("draft_logits").front());
  }

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
    EXPECT_LT(largest_error(round.first.hidden, hidden.front()), kBound);

    double worst_logit = 0, worst_hidden = 0;
    const auto results = round.draft(tokens.size());
    for (size_t i = 0; i < results.size(); ++i) {
      worst_logit = std::max(worst_logit, largest_error(filled(results[i].logits), logits[i]));
      worst_hidden = std::max(worst_hidden, largest_error(results[i].hidden, hidden[i + 1]));
      EXPECT_EQ(argmax(results[i].logits), tokens[i]) << "step " << i;
    }
    EXPECT_LT(worst_logit, kBound);
    EXPECT_LT(worst_hidden, kBound);
    RecordProperty(name + "_logits", std::to_string(worst_logit));
    RecordProperty(name + "_hidden", std::to_string(worst_hidden));
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
      EXPECT_GT(round.first_error(round.assistant->weights, step), kBound) << name;
    }
  }
}

TEST(ReferenceAssistant, TheGoldenComparisonNoticesAMissingOrExtraKey) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    AssistantStep step = round.first;
    step.extra_keys = 0;
    EXPECT_GT(round.first_error(round.assistant->weights, step), kBound) << name;
    step = round.first;
    --step.keys;
    EXPECT_GT(round.first_error(round.assistant->weights, step), kBound) << name;
  }
}

TEST(ReferenceAssistant, TheGoldenComparisonNoticesAHiddenStateBeforeTheFinalNorm) {
  for (const std::string& name : test::kGoldenCases) {
    Round round(name);
    AssistantStep step = round.first;
    step.hidden = round.run.layer_outputs.back().at(round.golden.target->config.layer_count() - 1);
    EXPECT_GT(round.first_error(round.assistant->weights, step), kBound) << name;
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
    EXPECT_GT(round.first_error(weights, round.first), 10 * kBound) << name;
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
