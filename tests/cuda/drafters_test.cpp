// Draft networks on the GPU against their references, and against themselves: what a row gets must not depend
// on the rows beside it or on the steps before.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/dflash.h"
#include "checkpoint/requantise.h"
#include "checkpoint/tiny_drafters.h"
#include "cuda/pair_fixture.h"
#include "reference/assistant.h"
#include "reference/dflash.h"
#include "reference/golden.h"
#include "reference/sensitivity.h"
#include "support/drafted_steps.h"

namespace slip::backend::cuda {
namespace {

using test::Pair;
using test::row_for;
using test::TargetText;
using test::token_at;

std::unique_ptr<Backend> load_target(const checkpoint::Checkpoint& target,
                                     kv::Storage storage = kv::Storage::kBf16) {
  auto backend = load(target.config, target.weights, test::cuda_options(64, storage));
  backend->pages().poison_new_pages(true);  // what a page held before is not to be read
  return backend;
}

class CudaAssistantOf : public test::PairTest {};

// 300 positions: past the window and into the second page.
TEST_P(CudaAssistantOf, FollowsTheReferenceThroughAChainOfSteps) {
  const auto [shape, bits] = GetParam();
  const Pair pair(shape, bits);
  const auto backend = load_target(*pair.target, kv::Storage::kF32);
  const TargetText text(*backend, 5, 300);
  const auto assistant =
      backend->load_assistant(pair.assistant->config, pair.assistant->weights, {.max_rows = 3});

  // The device goes from its own states; the reference then takes the same steps, and again while disturbed.
  const auto& config = pair.assistant->config;
  const auto vocab = static_cast<size_t>(config.text.vocab), width = text.hidden.size();
  std::vector<reference::AssistantStep> steps;
  std::vector<float> hidden = text.hidden, logits, hiddens;
  int token = 17;
  for (int step = 0; step < 3; ++step) {
    const AssistantRow row = row_for(text, hidden.data(), token);
    const Output out = assistant->step({&row, 1});
    steps.push_back({.token = token, .hidden = hidden, .position = row.position, .keys = row.keys});
    logits.insert(logits.end(), out.logits, out.logits + vocab);
    hidden.assign(out.hidden, out.hidden + width);
    hiddens.insert(hiddens.end(), hidden.begin(), hidden.end());
    token = static_cast<int>(std::max_element(out.logits, out.logits + vocab) - out.logits);
  }
  const test::DraftedSteps drafted(pair, steps);
  const double noise = test::device_noise(pair.target->config, bits < 16 ? 11 : 16, 300);
  const std::vector<float> want = drafted.logits({});
  std::vector<float> scored, expected;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::isfinite(logits[i]), std::isfinite(want[i])) << "token " << i % vocab;
    if (!std::isfinite(want[i])) continue;
    scored.push_back(logits[i]);
    expected.push_back(want[i]);
  }
  EXPECT_LT(test::relative_error(scored, expected),
            reference::allowed_error([&](const auto& disturb) { return drafted.logits(disturb); }, noise));
  EXPECT_LT(test::relative_error(hiddens, drafted.hidden({})),
            reference::allowed_error([&](const auto& disturb) { return drafted.hidden(disturb); }, noise));
  EXPECT_EQ(static_cast<int>(scored.size()),
            3 * (config.centroids == 0 ? config.text.vocab
                                       : config.text.vocab / config.centroids * config.kept_centroids));
}

TEST_P(CudaAssistantOf, GivesARowTheSameBitsAloneAndInARaggedBatch) {
  const auto [shape, bits] = GetParam();
  const Pair pair(shape, bits);
  const auto backend = load_target(*pair.target);
  const auto assistant =
      backend->load_assistant(pair.assistant->config, pair.assistant->weights, {.max_rows = 4});
  std::vector<TargetText> texts;
  for (const int length : {1, 300, 9, 64}) texts.emplace_back(*backend, 11 + length, length);
  const auto vocab = static_cast<size_t>(pair.target->config.vocab);
  const auto hidden_size = static_cast<size_t>(pair.target->config.hidden);
  std::vector<AssistantRow> rows;
  for (const TargetText& text : texts)
    rows.push_back(row_for(text, text.hidden.data(), 3 + text.cache->length()));
  // Alone, in another order, then together: nothing of an earlier step may be left.
  std::vector<std::vector<float>> logits(4), hiddens(4);
  for (const size_t i : {size_t{3}, size_t{1}, size_t{0}, size_t{2}}) {
    const Output out = assistant->step({&rows[i], 1});
    logits[i].assign(out.logits, out.logits + vocab);
    hiddens[i].assign(out.hidden, out.hidden + hidden_size);
  }
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Output out = assistant->step(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(std::memcmp(out.logits + i * vocab, logits[i].data(), vocab * sizeof(float)), 0) << i;
      EXPECT_EQ(std::memcmp(out.hidden + i * hidden_size, hiddens[i].data(), hidden_size * sizeof(float)), 0)
          << i;
    }
    const Output last = assistant->step({&rows[2], 1});
    EXPECT_EQ(std::memcmp(last.logits, logits[2].data(), vocab * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAssistantOf, test::pair_kinds(), test::pair_name);

/// The golden models and their block drafters.
struct BlockPair {
  explicit BlockPair(const std::string& name) : golden(name) {
    dflash = checkpoint::open_dflash(golden.folder + "/dflash", golden.target->config);
  }
  test::Golden golden;
  std::unique_ptr<checkpoint::DflashCheckpoint> dflash;
};

struct Context {
  Context(BlockDrafter& drafter, const TargetText& text, std::initializer_list<int> chunks)
      : cache(drafter.new_cache()) {
    cache->reserve(64);
    const size_t width = drafter.config().taps.size() * static_cast<size_t>(drafter.config().text.hidden);
    size_t at = 0;
    for (const int count : chunks) {
      const ContextRows rows{cache.get(), text.taps.data() + at * width, count};
      drafter.extend({&rows, 1});
      at += static_cast<size_t>(count);
    }
  }
  std::unique_ptr<kv::Cache> cache;
};

class CudaBlockDrafterOf : public test::GpuTest, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, CudaBlockDrafterOf, testing::ValuesIn(test::kGoldenCases),
                         [](const auto& test) { return test.param; });

TEST_P(CudaBlockDrafterOf, AgreesWithTheReferenceAtEveryWidth) {
  const BlockPair pair(GetParam());
  const checkpoint::Checkpoint& target = *pair.golden.target;
  const auto backend = load_target(target, kv::Storage::kF32);
  backend->set_taps(pair.dflash->config.taps);
  const TargetText text(*backend, 3, 21, pair.dflash->config.taps.size());
  const auto drafter = backend->load_dflash(pair.dflash->config, pair.dflash->weights, {});
  const Context context(*drafter, text, {13, 1, 7});

  // The reference sees the same taps, so that only the drafter is compared.
  std::vector<reference::Row> taps;
  const auto width = static_cast<std::ptrdiff_t>(pair.dflash->config.taps.size()) * target.config.hidden;
  for (auto at = text.taps.begin(); at != text.taps.end(); at += width) taps.emplace_back(at, at + width);
  const auto blocks = [&](int rows, const reference::Disturb& disturb) {
    reference::Dflash reference(pair.dflash->config, pair.dflash->weights, target.weights);
    reference.disturb(disturb);
    reference::Sequence reference_context;
    reference.extend(reference_context, taps);
    std::vector<float> all;
    for (const auto& row : reference.run_block(reference_context, 7, rows))
      all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  const double noise = test::device_noise(pair.dflash->config.text, 16, 21 + pair.dflash->config.block);
  for (int rows = 2; rows <= pair.dflash->config.block; ++rows) {
    const Block block{context.cache.get(), 7, rows};
    const Output out = drafter->run({&block, 1});
    EXPECT_EQ(context.cache->length(), 21);
    const std::vector<float> want = blocks(rows, {});
    ASSERT_EQ(out.rows, rows - 1);
    EXPECT_LT(test::relative_error({out.logits, out.logits + want.size()}, want),
              reference::allowed_error([&](const auto& disturb) { return blocks(rows, disturb); }, noise))
        << rows << " rows";
  }
}

TEST_P(CudaBlockDrafterOf, GivesABlockTheSameBitsAloneAndBesideAnother) {
  const BlockPair pair(GetParam());
  const auto backend = load_target(*pair.golden.target);
  backend->set_taps(pair.dflash->config.taps);
  const size_t taps = pair.dflash->config.taps.size();
  const TargetText one(*backend, 3, 21, taps), two(*backend, 4, 9, taps);
  const auto drafter = backend->load_dflash(pair.dflash->config, pair.dflash->weights, {});
  const Context whole(*drafter, one, {21}), pieces(*drafter, one, {1, 8, 12}), other(*drafter, two, {9});
  const auto vocab = static_cast<size_t>(pair.golden.vocab());

  const Block alone{whole.cache.get(), 7, 4};
  const Output out = drafter->run({&alone, 1});
  const std::vector<float> want(out.logits, out.logits + 3 * vocab);
  const Block both[] = {{other.cache.get(), 9, 2}, {pieces.cache.get(), 7, 4}};
  const Output together = drafter->run(both);
  ASSERT_EQ(together.rows, 4);
  EXPECT_EQ(std::memcmp(together.logits + vocab, want.data(), want.size() * sizeof(float)), 0);
}

class CudaTaps : public test::GpuTest {};

TEST_F(CudaTaps, AreTheLayersOutputsOfEveryRowAndChangeNoBit) {
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe"}) {
    SCOPED_TRACE(shape);
    const Pair pair(shape, 16);
    const int last = pair.target->config.layer_count() - 1;
    const auto plain = load_target(*pair.target, kv::Storage::kF32);
    const TargetText untapped(*plain, 8, 40);
    for (const std::vector<int>& layers : {std::vector<int>{1, 0}, std::vector<int>{0, last}}) {
      const auto backend = load_target(*pair.target, kv::Storage::kF32);
      backend->set_taps(layers);
      const TargetText text(*backend, 8, 40, 2, 17);
      EXPECT_EQ(text.hidden, untapped.hidden);
      const auto tapped = [&](const reference::Disturb& disturb) {
        test::TargetRun run(*pair.target, disturb);
        std::vector<int> tokens;
        for (int i = 0; i < 40; ++i) tokens.push_back(token_at(pair.target->config, 8, i));
        run.feed(tokens);
        std::vector<float> all;
        for (const auto& row : run.taps(layers, 0)) all.insert(all.end(), row.begin(), row.end());
        return all;
      };
      EXPECT_LT(test::relative_error(text.taps, tapped({})),
                reference::allowed_error(tapped, test::device_noise(pair.target->config, 16, 40)));
    }
  }
}

}  // namespace
}  // namespace slip::backend::cuda
