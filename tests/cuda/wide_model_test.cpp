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
                         {"tiny-moe", 8, 32},
                         {"tiny-unified", 8, 64}};

class CudaWideModel : public test::GpuTest, public testing::WithParamInterface<Model> {};
INSTANTIATE_TEST_SUITE_P(Models, CudaWideModel, testing::ValuesIn(kModels), [](const auto& test) {
  std::string name = fmt::format("{}_{}_group_{}", test.param.shape, test.param.bits, test.param.group);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

std::unique_ptr<checkpoint::Checkpoint> make_checkpoint(const Model& model) {
  checkpoint::SynthOptions options;
  options.shape = model.shape;
  options.bits = model.bits;
  options.group = model.group;
  return checkpoint::synthesize(options);
}

TEST_P(CudaWideModel, GivesAPromptTheBitsOfSixteenRowsAtATime) {
  const auto checkpoint = make_checkpoint(GetParam());
  Harness harness(*checkpoint, kv::Storage::kBf16, 128);
  constexpr int kTokens = 160;
  auto narrow = harness.start(5);
  harness.feed(narrow, kTokens, 16);
  auto whole = harness.start(5);
  harness.step({{&whole, 100, true}});
  harness.step({{&whole, 40, false}});
  harness.step({{&whole, 17, false}});
  harness.feed(whole, kTokens, 1);
  test::expect_same_bits(whole.logits, narrow.logits, "logits");
  test::expect_same_bits(whole.hidden, narrow.hidden, "hidden states");
}

TEST_P(CudaWideModel, TakesPromptsOfSeveralSequencesTogether) {
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

}  // namespace
}  // namespace slip::backend::cuda
