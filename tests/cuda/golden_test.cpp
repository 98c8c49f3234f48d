// The golden models on the GPU: against the reference with the same rounded cache, and against what the
// original implementation computed.
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "cuda/model_fixture.h"
#include "reference/forward.h"
#include "reference/golden.h"
#include "reference/sensitivity.h"

namespace slip::backend::cuda {
namespace {

using CudaGoldenMixture = test::GpuTest;
class CudaGolden : public test::GpuTest, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Cases, CudaGolden, testing::ValuesIn(test::kGoldenCases),
                         [](const auto& test) { return test.param; });

/// Logits of every position of a text, in steps of `width` rows.
std::vector<float> logits_of(const checkpoint::Checkpoint& checkpoint, const std::vector<int>& text,
                             size_t width, kv::Storage storage, std::optional<RowsAs> rows_as = {}) {
  CudaOptions options = test::cuda_options(64, storage);
  options.rows_as = rows_as;
  const auto backend = load(checkpoint.config, checkpoint.weights, options);
  const auto cache = backend->new_cache();
  cache->reserve(static_cast<int64_t>(text.size()));
  std::vector<float> logits;
  for (size_t at = 0; at < text.size(); at += width) {
    const size_t count = std::min(width, text.size() - at);
    std::vector<Row> rows(count);
    for (size_t i = 0; i < count; ++i) {
      rows[i].token = text[at + i];
      rows[i].position = static_cast<int>(at + i);
    }
    cache->stage(static_cast<int>(count));
    kv::Cache* caches[] = {cache.get()};
    const Output out = backend->run({rows, caches});
    cache->commit(static_cast<int>(count));
    logits.insert(logits.end(), out.logits,
                  out.logits + count * static_cast<size_t>(checkpoint.config.vocab));
  }
  return logits;
}

std::vector<float> reference_logits(const checkpoint::Checkpoint& checkpoint, const std::vector<int>& text) {
  const model::Program program = model::build_program(checkpoint.config, checkpoint.weights);
  reference::Forward forward(program);
  forward.bf16_cache = true;
  reference::Sequence sequence;
  std::vector<float> logits;
  for (const int token : text) {
    const auto result = forward.step(sequence, token);
    logits.insert(logits.end(), result.logits.begin(), result.logits.end());
  }
  return logits;
}

/// What the device's rounding may move, rows having `bits`.
double allowed_error(const checkpoint::Checkpoint& checkpoint, const std::vector<int>& text, int bits,
                     bool bf16_cache = false) {
  const model::Program program = model::build_program(checkpoint.config, checkpoint.weights);
  const double noise = test::device_noise(checkpoint.config, bits, static_cast<int>(text.size()));
  const auto configure = [=](reference::Forward& forward) { forward.bf16_cache = bf16_cache; };
  return reference::allowed_error(program, text, {.noise = noise, .configure = configure}).logits;
}

std::vector<float> joined(const std::vector<reference::Row>& rows) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

// A bf16 cache rounds values that differ in the last bit to neighbours, and layers of random weights amplify
// that until the router of a mixture chooses another expert. So kernels are judged with a cache of floats,
// and the rounded cache where it can be.
TEST_P(CudaGolden, FollowsTheOriginalWithACacheOfFloats) {
  const test::Golden golden(GetParam());
  const std::vector<int> prompt = golden.prompt();
  const std::vector<float> got = logits_of(*golden.target, prompt, 16, kv::Storage::kF32);
  const double error = test::relative_error(got, joined(golden.rows("prompt_logits")));
  const double bound = allowed_error(*golden.target, prompt, 16);
  std::printf("%s, f32 cache: relative error %.2g of the original, allowed %.2g\n", GetParam().c_str(), error,
              bound);
  EXPECT_LT(error, bound);
  EXPECT_EQ(logits_of(*golden.target, prompt, 1, kv::Storage::kF32), got);
}

TEST_P(CudaGolden, FollowsTheReferenceWithARoundedCache) {
  const test::Golden golden(GetParam());
  const std::vector<int> prompt = golden.prompt();
  const std::vector<float> got = logits_of(*golden.target, prompt, 16, kv::Storage::kBf16);
  const std::vector<float> want = reference_logits(*golden.target, prompt);
  const double error = test::relative_error(got, want);
  std::printf("%s, bf16 cache: relative error %.2g of the reference\n", GetParam().c_str(), error);
  // A mixture must stay closer than the rounding of the cache moves the reference itself (by 29 % here).
  const double moved = test::relative_error(want, joined(golden.rows("prompt_logits")));
  EXPECT_LT(error,
            golden.target->config.experts > 0 ? moved : allowed_error(*golden.target, prompt, 16, true));
  EXPECT_EQ(logits_of(*golden.target, prompt, 1, kv::Storage::kBf16), got);
}

TEST_P(CudaGolden, FollowsTheOriginalWithQuantisedWeights) {
  for (const int bits : {8, 4}) {
    const test::Golden golden(GetParam());
    const std::string key = "mlx" + std::to_string(bits);
    if (!golden.facts.contains(key + "_greedy_tokens")) continue;
    const auto checkpoint = checkpoint::open(golden.folder + "/target-" + key);
    const std::vector<int> prompt = golden.prompt();
    for (const RowsAs rows_as : {RowsAs::kPairs, RowsAs::kHalves}) {
      const bool halves = rows_as == RowsAs::kHalves;
      if (halves && checkpoint->config.experts > 0) continue;  // see the next test
      const std::vector<float> got = logits_of(*checkpoint, prompt, 16, kv::Storage::kF32, rows_as);
      const double error = test::relative_error(got, joined(golden.rows(key + "_logits")));
      std::printf("%s, %d bits, f32 cache, activations of %d bits: relative error %.2g of the original\n",
                  GetParam().c_str(), bits, halves ? 11 : 16, error);
      EXPECT_LT(error, allowed_error(*checkpoint, prompt, halves ? 11 : 16));
    }
  }
}

TEST_F(CudaGoldenMixture, HasNoActivationsOfElevenBits) {
  const test::Golden golden("moe");
  const auto checkpoint = checkpoint::open(golden.folder + "/target-mlx4");
  try {
    logits_of(*checkpoint, golden.prompt(), 1, kv::Storage::kF32, RowsAs::kHalves);
    FAIL() << "it was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace slip::backend::cuda
