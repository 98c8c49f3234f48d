// The identity suite on a GPU: every architecture, with an assistant that is right about some of the text,
// one that is right about none, and lookups. Hours on the emulated device, so it is left out there.
#ifndef SLIP_CUDA_EMULATED
#include <gtest/gtest.h>

#include "checkpoint/assistant.h"
#include "checkpoint/dflash.h"
#include "cuda/model_fixture.h"
#include "engine/fake_drafting.h"
#include "support/identity_suite.h"

namespace slip::engine {
namespace {

void expect_identical(test::IdentitySuite& suite, const std::string& what,
                      const test::IdentitySuite::NewSpeculator& speculator) {
  const auto result = suite.differences(speculator);
  for (const auto& difference : result.differences) ADD_FAILURE() << what << ": " << difference;
  for (const auto& failure : result.failures) ADD_FAILURE() << what << ": " << failure;
  EXPECT_TRUE(result.drafted > 0 || what == "suffix")
      << what << " drafted nothing";  // may find nothing to copy
}

class CudaIdentityOf : public test::GpuTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Shapes, CudaIdentityOf,
                         testing::Values("tiny-e2b", "tiny-dense", "tiny-moe", "tiny-moe8", "tiny-unified"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST_P(CudaIdentityOf, SpeculationCannotBeSeen) {
  synth::SynthOptions options;
  options.shape = GetParam();
  options.acceptance = 0.7;
  const auto target = synth::synthesize(options);
  const auto assistant = synth::synthesize_assistant(options);
  options.acceptance = 0;
  const auto liar = synth::synthesize_assistant(options);
  const auto backend = backend::cuda::load(target->config, target->weights, test::cuda_options(48));
  const auto network = backend->load_assistant(assistant->config, assistant->weights, {.max_rows = 4});
  const auto lying = backend->load_assistant(liar->config, liar->weights, {.max_rows = 4});
  test::IdentitySuite suite(*backend, {.prompt = 15, .tokens = 30});
  const int vocab = backend->config().vocab;
  const auto mtp = [](backend::Assistant& one) { return std::make_unique<speculate::MtpDrafter>(one); };
  for (const int depth : {1, 2, 3, 5, 8}) {
    expect_identical(suite, fmt::format("mtp at depth {}", depth),
                     [&] { return fake_speculator(vocab, {.fixed = depth}, mtp(*network)); });
  }
  expect_identical(suite, "lying", [&] { return fake_speculator(vocab, {.fixed = 3}, mtp(*lying)); });
  expect_identical(suite, "suffix", [&] {
    return fake_speculator(vocab, {.fixed = 4}, std::make_unique<speculate::SuffixDrafter>());
  });
  expect_identical(suite, "auto", [&] {
    return fake_speculator(vocab, {}, mtp(*network), std::make_unique<speculate::SuffixDrafter>());
  });
}

class CudaIdentityOfGolden : public test::GpuTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cases, CudaIdentityOfGolden, testing::Values("e2b", "dense", "moe", "unified"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(CudaIdentityOfGolden, SpeculationCannotBeSeen) {
  const std::string folder = std::string(SLIP_GOLDEN) + "/" + GetParam();
  const auto target = checkpoint::open(folder + "/target");
  const auto assistant = checkpoint::open_assistant(folder + "/assistant", target->config);
  const auto dflash = checkpoint::open_dflash(folder + "/dflash", target->config);
  const auto backend = backend::cuda::load(target->config, target->weights, test::cuda_options(64));
  test::IdentitySuite suite(*backend, {.prompt = 20, .tokens = 30});  // plain, without taps
  backend->set_taps(dflash->config.taps);
  const auto mtp = backend->load_assistant(assistant->config, assistant->weights, {.max_rows = 4});
  const auto block = backend->load_dflash(dflash->config, dflash->weights, {.max_rows = 32});
  for (const int fixed : {-1, 4}) {
    expect_identical(suite, fmt::format("depth {}", fixed), [&] {
      return fake_speculator(
          backend->config().vocab, {.fixed = fixed}, std::make_unique<speculate::MtpDrafter>(*mtp),
          std::make_unique<speculate::DflashDrafter>(*block), std::make_unique<speculate::SuffixDrafter>());
    });
  }
}

}  // namespace
}  // namespace slip::engine
#endif
