// Whole models on the GPU against the reference, and against themselves: a row's bits must not depend on the
// width of the step, on its place, on the other sequences, or on whether others want output.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/model_fixture.h"
#include "reference/forward.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

struct Model {
  std::string shape;
  int bits;
  int group = 64;
};

std::vector<Model> models() {
  // A whole model takes many seconds on the emulated device.
  if (test::kEmulated)
    return {
        {"tiny-e2b", 4}, {"tiny-dense", 16}, {"tiny-dense", 8}, {"tiny-moe", 4, 32}, {"tiny-moe8", 8, 32}};
  std::vector<Model> all;
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-moe8", "tiny-unified"}) {
    for (const int bits : {16, 8, 4}) all.push_back({shape, bits});
  }
  all.push_back({"tiny-moe", 4, 32});
  all.push_back({"tiny-dense", 8, 32});
  all.push_back({"tiny-e2b", 4, 128});
  return all;
}

std::string name_of(const Model& model) {
  std::string name = model.shape + "_" + std::to_string(model.bits) + "_group_" + std::to_string(model.group);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

std::unique_ptr<checkpoint::Checkpoint> make_checkpoint(const Model& model) {
  synth::SynthOptions options;
  options.shape = model.shape;
  options.bits = model.bits;
  options.group = model.group;
  return synth::synthesize(options);
}

using test::Harness;

std::vector<float> joined(const std::vector<std::vector<float>>& rows) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

void with_bf16_cache(reference::Forward& forward) {
  forward.bf16_cache = true;
}

/// A text by the reference: what every position gives.
struct Followed {
  Followed(const model::Program& program, std::span<const int> tokens,
           const std::function<void(reference::Forward&)>& configure) {
    reference::Forward forward(program);
    if (configure) configure(forward);
    reference::Sequence sequence;
    for (const int token : tokens) {
      const auto result = forward.step(sequence, token);
      logits.insert(logits.end(), result.logits.begin(), result.logits.end());
      hidden.insert(hidden.end(), result.hidden.begin(), result.hidden.end());
    }
  }
  std::vector<float> logits, hidden;
};

class CudaModel : public test::GpuTest, public testing::WithParamInterface<Model> {};
INSTANTIATE_TEST_SUITE_P(Models, CudaModel, testing::ValuesIn(models()),
                         [](const auto& test) { return name_of(test.param); });

// With a cache of floats nothing is rounded on the way, and differences stay small. Only a mixture may find
// two experts so close that the device takes the other one: a sequence is judged up to there, and another one
// takes its place.
TEST_P(CudaModel, AgreesWithTheReference) {
  constexpr size_t kJudged = 45;
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint, kv::Storage::kF32);
  const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
  const int bits = test::row_bits(checkpoint->config, GetParam().bits);
  const reference::Probe probe{.noise = test::device_noise(checkpoint->config, bits, kJudged)};
  size_t judged = 0;
  for (uint64_t seed = 5; judged < kJudged; ++seed) {
    ASSERT_LT(seed, 40) << "hardly any choice of experts is clear";
    std::vector<int> tokens = harness.tokens(seed, kJudged - judged);
    tokens.resize(reference::clear_tokens(program, tokens, probe));
    if (tokens.empty()) continue;
    judged += tokens.size();
    const auto want = Followed(program, tokens, {});
    auto mine = harness.start(seed);
    harness.feed(mine, static_cast<int>(tokens.size()), 1);
    const reference::Allowed allowed = reference::allowed_error(program, tokens, probe);
    EXPECT_LT(test::relative_error(joined(mine.logits), want.logits), allowed.logits) << "seed " << seed;
    EXPECT_LT(test::relative_error(joined(mine.hidden), want.hidden), allowed.hidden) << "seed " << seed;
  }
}

// A cache of bf16 rounds a key now and then to the other neighbour, as it does for a reference that is disturbed by
// as much as the device rounds. Of a mixture nothing can be said: another expert is another result (golden_test.cpp).
TEST_P(CudaModel, ARoundedCacheCostsNoMoreThanItsRounding) {
  const auto checkpoint = make_checkpoint(GetParam());
  if (checkpoint->config.experts > 0) GTEST_SKIP() << "a mixture";
  constexpr size_t kTokens = 45;
  Harness harness(*checkpoint);
  const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
  const std::vector<int> tokens = harness.tokens(5, kTokens);
  const int bits = test::row_bits(checkpoint->config, GetParam().bits);
  const reference::Probe probe{.noise = test::device_noise(checkpoint->config, bits, kTokens),
                               .configure = with_bf16_cache};
  auto mine = harness.start(5);
  harness.feed(mine, kTokens, 1);
  EXPECT_LT(test::relative_error(joined(mine.logits), Followed(program, tokens, with_bf16_cache).logits),
            reference::allowed_error(program, tokens, probe).logits);
}

TEST_P(CudaModel, GivesARowTheSameBitsAtEveryWidthAndInsideAPromptChunk) {
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint);
  constexpr int kTokens = 61;  // crosses the window of every tiny shape
  auto alone = harness.start(5);
  harness.feed(alone, kTokens, 1);
  for (int width = 2; width <= 17; width += test::kEmulated ? 11 : 1) {
    auto together = harness.start(5);
    harness.feed(together, kTokens, width);
    test::expect_same_bits(together.logits, alone.logits, "width " + std::to_string(width));
  }
  auto whole = harness.start(5);
  harness.step({{&whole, kTokens}});
  test::expect_same_bits(whole.logits, alone.logits, "one chunk");
}

TEST_P(CudaModel, GivesARowTheSameBitsWhateverSharesTheBatch) {
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint);
  auto alone = harness.start(5);
  harness.feed(alone, 50, 1);
  // Ragged company: a prompt chunk without outputs, a verify window that is rejected, a single decode row.
  auto subject = harness.start(5), chunk = harness.start(6), verify = harness.start(7),
       decode = harness.start(8);
  harness.feed(decode, 30, 30);
  harness.step({{&chunk, 40, false}, {&subject, 9}, {&decode, 1}});
  harness.step({{&subject, 1}, {&verify, 5, true, false}, {&chunk, 13, false}});
  harness.step({{&verify, 3}, {&decode, 1}, {&subject, 24, false}, {&chunk, 1}});
  harness.step({{&decode, 2, true, false}, {&subject, 16}});
  ASSERT_EQ(subject.cache->length(), 50);
  test::expect_same_bits(subject.logits, alone.logits, "ragged batch");
}

TEST_P(CudaModel, ForgetsARejectedWindowCompletely) {
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint);
  auto plain = harness.start(5), drafted = harness.start(5);
  const int tokens = test::kEmulated ? 33 : 64;
  harness.feed(plain, tokens, 1);
  while (drafted.cache->length() < tokens) {
    const uint64_t truth = drafted.seed;
    drafted.seed = 99;  // a window of wrong tokens
    harness.step({{&drafted, 7, true, false}});
    drafted.seed = truth;
    harness.step({{&drafted, 1}});
  }
  drafted.logits.resize(static_cast<size_t>(tokens));
  test::expect_same_bits(drafted.logits, plain.logits, "after rejected windows");
}

class CudaLong : public test::GpuTest {};

TEST_F(CudaLong, ManyPagesOfKeysAgreeWithTheReferenceAndWithEveryWidth) {
  for (const char* shape : {"tiny-e2b", "tiny-dense"}) {
    if (test::kEmulated && std::string(shape) == "tiny-dense") continue;  // too slow
    const auto checkpoint = make_checkpoint({shape, 16});
    Harness harness(*checkpoint);
    constexpr int kTokens = (test::kEmulated ? 1 : 3) * kv::kPagePositions + 10;
    auto chunked = harness.start(5, kTokens + 16), ragged = harness.start(5, kTokens + 16);
    harness.feed(chunked, kTokens, 48);
    for (int width = 1; ragged.cache->length() < kTokens; width = width % 17 + 1)
      harness.step({{&ragged, std::min(width, kTokens - ragged.cache->length())}});
    test::expect_same_bits(ragged.logits, chunked.logits, shape);

    const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
    const std::vector<int> tokens = harness.tokens(5, kTokens);
    const reference::Probe probe{.noise = test::device_noise(checkpoint->config, 16, kTokens),
                                 .configure = with_bf16_cache};
    EXPECT_LT(test::relative_error(joined(chunked.logits), Followed(program, tokens, with_bf16_cache).logits),
              reference::allowed_error(program, tokens, probe).logits)
        << shape;
  }
}

class CudaInput : public test::GpuTest {};

TEST_F(CudaInput, AnEmbeddingInARowsPlaceAgreesWithTheReference) {
  const auto checkpoint = make_checkpoint({"tiny-e2b", 16});
  Harness harness(*checkpoint);
  const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
  std::vector<float> embedding(static_cast<size_t>(checkpoint->config.hidden));
  for (size_t i = 0; i < embedding.size(); ++i) embedding[i] = test::noise(9, i);
  const auto embedded = [&](const reference::Disturb& disturb) {
    reference::Forward forward(program);
    forward.bf16_cache = true;
    if (disturb) forward.disturb = [&](const model::Phase&, std::vector<float>& field) { disturb(field); };
    reference::Sequence sequence;
    forward.step(sequence, 3);
    return forward.step_embedding(sequence, embedding).logits;
  };

  auto cache = harness.backend().new_cache();
  cache->reserve(2);
  cache->stage(2);
  std::vector<Row> rows(2);
  rows[0].token = 3;
  rows[1].position = 1;
  const HostSoftRows soft(embedding, static_cast<int>(embedding.size()));
  rows[1].soft = &soft;
  kv::Cache* caches[] = {cache.get()};
  const Output out = harness.backend().run({rows, caches});
  const int vocab = checkpoint->config.vocab;
  const std::vector<float> got(out.logits + vocab, out.logits + 2 * vocab);
  EXPECT_LT(test::relative_error(got, embedded({})),
            reference::allowed_error(embedded, test::device_noise(checkpoint->config, 16, 2)));
}

}  // namespace
}  // namespace slip::backend::cuda
