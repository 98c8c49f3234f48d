// Prompts in wide passes against the same prompts 16 rows at a time: every architecture and format, across
// windows and blocks of keys, with and without outputs and taps, and what is decoded after them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cuda/model_fixture.h"

namespace slip::backend::cuda {
namespace {

using test::Harness;

struct Model {
  const char* shape;
  int bits, group;
};
const Model kModels[] = {{"tiny-e2b", 4, 128},
                         {"tiny-dense", 16, 64},
                         {"tiny-moe", 4, 64},
                         {"tiny-moe8", 8, 32},
                         {"tiny-unified", 8, 64}};

class CudaWideModel : public test::GpuTest, public testing::WithParamInterface<Model> {};
INSTANTIATE_TEST_SUITE_P(Models, CudaWideModel, testing::ValuesIn(kModels), [](const auto& test) {
  std::string name = fmt::format("{}_{}_group_{}", test.param.shape, test.param.bits, test.param.group);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

std::unique_ptr<checkpoint::Checkpoint> make_checkpoint(const Model& model) {
  synth::SynthOptions options;
  options.shape = model.shape;
  options.bits = model.bits;
  options.group = model.group;
  return synth::synthesize(options);
}

TEST_P(CudaWideModel, GivesAPromptTheBitsOfSixteenRowsAtATime) {
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint, kv::Storage::kBf16, 128);
  constexpr int kTokens = 121;
  auto narrow = harness.start(5);
  harness.feed(narrow, kTokens, 16);
  auto whole = harness.start(5);
  harness.step({{&whole, 17, false}});
  harness.step({{&whole, 100, true}});
  harness.step({{&whole, 3, false}});
  harness.feed(whole, kTokens, 1);
  test::expect_same_bits(whole.logits, narrow.logits, "logits");
  test::expect_same_bits(whole.hidden, narrow.hidden, "hidden states");
}

TEST_P(CudaWideModel, TakesPromptsOfSeveralSequencesTogether) {
  if (test::kEmulated && GetParam().bits == 8) GTEST_SKIP() << "too slow on an emulated device";
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint, kv::Storage::kBf16, 128);
  auto alone = harness.start(5);
  harness.feed(alone, 90, 16);
  auto subject = harness.start(5), one = harness.start(6), two = harness.start(7);
  harness.step({{&one, 50, false}, {&subject, 30}, {&two, 1}});
  harness.step({{&two, 3}, {&subject, 59, false}, {&one, 2, true, false}});
  harness.step({{&subject, 1}});
  test::expect_same_bits(subject.logits, alone.logits, "several sequences");
}

class CudaWideTaps : public test::GpuTest {};

TEST_F(CudaWideTaps, AreKeptOfEveryRow) {
  const auto checkpoint = make_checkpoint({"tiny-dense", 4, 64});
  const model::Config& config = checkpoint->config;
  const auto backend = load(config, checkpoint->weights, test::cuda_options(48));
  const std::vector<int> taps = {1, config.layer_count() - 1};
  backend->set_taps(taps);
  constexpr int kRows = 40;
  struct Pass {
    std::vector<float> taps, logits;
  };
  const auto run = [&](int width) {
    Pass pass;
    const auto cache = backend->new_cache();
    cache->reserve(kRows);
    kv::Cache* caches[] = {cache.get()};
    while (cache->length() < kRows) {
      std::vector<Row> rows;
      for (int i = 0; i < std::min(width, kRows - cache->length()); ++i)
        rows.push_back({.position = cache->length() + i});
      for (Row& row : rows) {
        row.token = row.position * 11 % config.vocab;
        row.output = row.position == kRows - 1;
      }
      cache->stage(static_cast<int>(rows.size()));
      const Output out = backend->run({rows, caches});
      const auto cols = taps.size() * static_cast<size_t>(config.hidden);
      pass.taps.insert(pass.taps.end(), out.taps, out.taps + rows.size() * cols);
      if (out.rows > 0) pass.logits.assign(out.logits, out.logits + config.vocab);
      cache->commit(static_cast<int>(rows.size()));
    }
    return pass;
  };
  const Pass narrow = run(16), wide = run(kRows);
  test::expect_same_bits({wide.taps, wide.logits}, {narrow.taps, narrow.logits}, "taps and logits");
}

}  // namespace
}  // namespace slip::backend::cuda
