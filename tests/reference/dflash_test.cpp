#include "reference/dflash.h"

#include <gtest/gtest.h>

#include "checkpoint/dflash.h"
#include "checkpoint/requantise.h"
#include "reference/golden.h"
#include "reference/sensitivity.h"

namespace slip::reference {
namespace {

using test::argmax;
using test::Golden;

Row joined(const std::vector<Row>& rows) {
  Row all;
  for (const Row& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

/// A golden case with the prompt in the context; commit() takes greedy tokens into it.
struct Draft {
  explicit Draft(const std::string& name)
      : golden(name),
        drafter(checkpoint::open_dflash(golden.folder + "/dflash", golden.target->config)),
        run(*golden.target),
        greedy(golden.tokens("greedy_tokens")) {
    feed(golden.prompt());
  }
  void feed(const std::vector<int>& tokens) {
    const size_t first = run.layer_outputs.size();
    run.feed(tokens);
    network().extend(context, run.taps(drafter->config.taps, first));
  }
  void commit(size_t count) {
    feed({greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(count)});
    greedy.erase(greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(count));
  }
  Dflash network() const { return {drafter->config, drafter->weights, golden.target->weights}; }
  /// What rounding may move in the block, everything on the way to it included.
  double allowed(int rows) const {
    const std::vector<int> prompt = golden.prompt();
    const auto all = golden.tokens("greedy_tokens");
    std::vector<int> read = prompt;
    read.insert(read.end(), all.begin(), all.end() - static_cast<std::ptrdiff_t>(greedy.size()));
    const int positions = static_cast<int>(read.size()) + rows;
    const double noise =
        std::max(float_noise(golden.target->config, positions), float_noise(drafter->config.text, positions));
    return allowed_error(
        [&](const Disturb& disturb) {
          test::TargetRun target(*golden.target, disturb);
          target.feed(read);
          Dflash disturbed = network();
          disturbed.disturb(disturb);
          Sequence own;
          disturbed.extend(own, target.taps(drafter->config.taps, 0));
          return joined(disturbed.run_block(own, greedy.front(), rows));
        },
        noise);
  }
  std::vector<Row> block() { return block(drafter->config.block); }
  std::vector<Row> block(int rows) { return network().run_block(context, greedy.front(), rows); }

  Golden golden;
  std::unique_ptr<checkpoint::DflashCheckpoint> drafter;
  test::TargetRun run;
  std::vector<int> greedy;  // not committed yet
  Sequence context;
};

double block_error(const std::vector<Row>& got, const std::vector<Row>& want) {
  return relative_error(joined(got), joined(want));
}

TEST(ReferenceDflash, GuessesWhatItsAuthorsCodeGuessesInBothRoundsOfEveryGoldenCase) {
  for (const std::string& name : test::kGoldenCases) {
    SCOPED_TRACE(name);
    Draft draft(name);
    for (const int round : {0, 1}) {
      const auto& fact = draft.golden.facts.at("dflash_rounds").at(static_cast<size_t>(round));
      ASSERT_EQ(draft.context.length, fact.at("start").get<int>());
      const auto want = draft.golden.rows("dflash_logits_" + std::to_string(round));
      const auto got = draft.block();
      EXPECT_LT(block_error(got, want), draft.allowed(draft.drafter->config.block));
      std::vector<int> tokens;
      for (const Row& row : got) tokens.push_back(argmax(row));
      EXPECT_EQ(tokens, fact.at("tokens").get<std::vector<int>>());
      draft.commit(3);
    }
  }
}

TEST(ReferenceDflash, LeavesTheContextAsItWas) {
  Draft draft("dense");
  const auto once = draft.block();
  EXPECT_EQ(draft.context.layers[0].keys.size(), static_cast<size_t>(draft.context.length));
  EXPECT_EQ(draft.block(), once);
}

// The golden comparison can only be trusted if it notices each thing that can be wrong.

TEST(ReferenceDflash, TheGoldenComparisonNoticesEveryPartOfTheNetwork) {
  for (const std::string& name : test::kGoldenCases) {
    SCOPED_TRACE(name);
    const auto error_after = [&](const std::function<void(Draft&)>& change) {
      Draft draft(name);
      change(draft);
      Draft other(name);  // its context is made with the changed network
      other.drafter = std::move(draft.drafter);
      other.context = {};
      other.network().extend(other.context, other.run.taps(other.drafter->config.taps, 0));
      return block_error(other.block(), other.golden.rows("dflash_logits_0"));
    };
    const double bound = Draft(name).allowed(Draft(name).drafter->config.block);
    EXPECT_LT(error_after([](Draft&) {}), bound);
    EXPECT_GT(error_after([](Draft& d) { std::swap(d.drafter->config.taps[0], d.drafter->config.taps[1]); }),
              bound)
        << "taps in another order";
    EXPECT_GT(error_after([](Draft& d) { --d.drafter->config.taps[1]; }), bound) << "another layer's output";
    EXPECT_GT(error_after([](Draft& d) { d.drafter->config.text.embed_scale = 1; }), bound)
        << "embeddings not scaled";
    EXPECT_GT(error_after([](Draft& d) { d.drafter->config.text.logit_softcap = 0; }), bound) << "no softcap";
    EXPECT_GT(error_after([](Draft& d) {
                for (auto& layer : d.drafter->weights.text.layers) scale(layer.q_norm, 4);
              }),
              bound)
        << "scores not divided by sqrt(16)";
    EXPECT_GT(error_after([](Draft& d) {
                for (auto& layer : d.drafter->config.text.layers) layer.kind = model::LayerKind::kSliding;
                d.drafter->config.text.window = 1 << 20;
              }),
              bound)
        << "a causal block";
    EXPECT_GT(error_after([](Draft& d) { d.drafter->config.mask_id = 3; }), bound) << "another mask";
  }
}

TEST(ReferenceDflash, TheGoldenComparisonNoticesAContextAtOtherPositions) {
  for (const std::string& name : test::kGoldenCases) {
    Draft draft(name);
    const auto taps = draft.run.taps(draft.drafter->config.taps, 0);
    draft.context = {};
    draft.network().extend(draft.context, {taps.begin() + 1, taps.end()});
    EXPECT_GT(block_error(draft.block(), draft.golden.rows("dflash_logits_0")),
              draft.allowed(draft.drafter->config.block))
        << name;
  }
}

TEST(ReferenceDflash, SlidingRowsSeeTheWindowUpToThemselves) {
  Draft draft("dense");
  model::DflashConfig& config = draft.drafter->config;
  for (auto& layer : config.text.layers) layer.kind = model::LayerKind::kSliding;
  config.text.window = 4;
  // No row sees a later one, so a shorter block gives the same rows.
  const auto whole = draft.block(8);
  const auto shorter = draft.block(3);
  EXPECT_EQ(shorter[0], whole[0]);
  EXPECT_EQ(shorter[1], whole[1]);
  // Two layers of windows of 4 reach 6 positions back: row 6 and later see nothing of the context.
  Draft other("dense");
  other.drafter = std::move(draft.drafter);
  for (auto& layer : other.context.layers) {
    for (Row& value : layer.values) scale(value, 2);
  }
  const auto changed = other.block(8);
  EXPECT_NE(changed[4], whole[4]);  // row 5 reaches back to the last of the context
  EXPECT_EQ(changed[5], whole[5]);
  EXPECT_EQ(changed[6], whole[6]);
}

TEST(ReferenceDflash, KeepsItsLogitsNearlyWhenItsMatricesAreQuantisedToEightBits) {
  for (const std::string& name : test::kGoldenCases) {
    Draft draft(name);
    const auto before = draft.block();
    checkpoint::requantise(*draft.drafter, 8);
    ASSERT_EQ(draft.drafter->weights.fc.encoding, tensor::Encoding::kAffine);
    draft.context = {};
    draft.network().extend(draft.context, draft.run.taps(draft.drafter->config.taps, 0));
    const auto after = draft.block();
    const double error = block_error(after, before);
    EXPECT_LT(error, 1.0) << name;
    EXPECT_GT(error, 0.0) << name;
    for (size_t j = 0; j < after.size(); ++j) EXPECT_EQ(argmax(after[j]), argmax(before[j])) << name;
  }
}

}  // namespace
}  // namespace slip::reference
