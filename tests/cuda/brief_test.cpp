// A few steps of every tiny model through every kind of kernel: all that compute-sanitizer, thousands of
// times slower than the GPU, goes through in minutes (docs/kernels.md).
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/pair_fixture.h"

namespace slip::backend::cuda {
namespace {

struct Model {
  const char* shape;
  int bits;
};
const Model kModels[] = {
    {"tiny-e2b", 4}, {"tiny-dense", 4}, {"tiny-moe", 8}, {"tiny-moe8", 4}, {"tiny-unified", 16}};

class CudaBrief : public test::GpuTest, public testing::WithParamInterface<Model> {
 protected:
  const test::Pair pair_{GetParam().shape, GetParam().bits};
};
INSTANTIATE_TEST_SUITE_P(Models, CudaBrief, testing::ValuesIn(kModels), [](const auto& test) {
  std::string name = std::string(test.param.shape) + "_" + std::to_string(test.param.bits);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST_P(CudaBrief, WideAndNarrowStepsGiveTheSameBits) {
  test::Harness harness(*pair_.target);
  auto narrow = harness.start(5), wide = harness.start(5);
  harness.step({{&narrow, 16}});
  harness.step({{&narrow, 5}});
  harness.step({{&narrow, 1}});
  harness.step({{&wide, 22}});
  test::expect_same_bits(wide.logits, narrow.logits, "logits");
}

TEST_P(CudaBrief, AChainGivesTheBitsOfSingleSteps) {
  const auto backend = load(pair_.target->config, pair_.target->weights, test::cuda_options(16));
  const auto network =
      backend->load_assistant(pair_.assistant->config, pair_.assistant->weights, {.max_rows = 2});
  const test::TargetText text(*backend, 5, 9);
  const DrawRule greedy;
  AssistantRow row = test::row_for(text, text.hidden.data(), 17);
  row.candidates = 3;
  row.draw = &greedy;
  const auto chain = network->chain({&row, 1}, 2);
  ASSERT_EQ(chain.size(), 2u);
  const BestTokens guesses[] = {chain[0].best[0], chain[1].best[0]};
  const float* hidden = network->hidden_after(0, 0);
  const std::vector<float> first(hidden, hidden + pair_.target->config.hidden);
  for (const BestTokens& guess : guesses) {
    const Output want = network->step({&row, 1});
    ASSERT_EQ(guess.count, want.best[0].count);
    EXPECT_EQ(std::memcmp(guess.tokens, want.best[0].tokens, 3 * sizeof(Candidate)), 0);
    row.token = guess.next;
    row.hidden = first.data();
  }
}

}  // namespace
}  // namespace slip::backend::cuda
