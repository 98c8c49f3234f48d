// The identity suite on the CPU backend: every architecture, with an assistant that is right about some of
// the text, one that is right about none, and lookups. Tiny synthetic pairs; the real computation.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "checkpoint/assistant.h"
#include "checkpoint/dflash.h"
#include "checkpoint/tiny_drafters.h"
#include "engine/fake_drafting.h"
#include "support/identity_suite.h"
#include "support/sanitized.h"
#include "synth/synthetic.h"

namespace slip::engine {
namespace {

class CpuIdentityOf : public testing::TestWithParam<const char*> {};

TEST_P(CpuIdentityOf, speculation_cannot_be_seen) {
  synth::SynthOptions options;
  options.shape = GetParam();
  options.acceptance = 0.7;
  const auto target = synth::synthesize(options);
  const auto assistant = synth::synthesize_assistant(options);
  options.acceptance = 0;
  const auto liar = synth::synthesize_assistant(options);
  options.acceptance = 1;
  const auto oracle = synth::synthesize_assistant(options);
  backend::cpu::CpuOptions cpu;
  cpu.threads = 2;
  cpu.max_rows = 48;
  const auto backend = backend::cpu::load(target->config, target->weights, cpu);
  ASSERT_NE(backend->description().find("16-bit activations"), std::string::npos)
      << "not the mode that ships";
  const auto network = backend->load_assistant(assistant->config, assistant->weights, {.max_rows = 4});
  const auto lying = backend->load_assistant(liar->config, liar->weights, {.max_rows = 4});
  const auto right = backend->load_assistant(oracle->config, oracle->weights, {.max_rows = 4});
  test::IdentitySuite suite(*backend, {.prompt = 15, .tokens = 30, .few = test::kSanitized});

  const auto expect_identical = [&](const std::string& what,
                                    const test::IdentitySuite::NewSpeculator& speculator) {
    const auto result = suite.differences(speculator);
    for (const auto& difference : result.differences) ADD_FAILURE() << what << ": " << difference;
    for (const auto& failure : result.failures) ADD_FAILURE() << what << ": " << failure;
    return result.drafted == 0 ? 0.0
                               : static_cast<double>(result.accepted) / static_cast<double>(result.drafted);
  };
  const int vocab = backend->config().vocab;
  const auto mtp = [](backend::Assistant& one) { return std::make_unique<speculate::MtpDrafter>(one); };
  for (int depth = 1; depth <= 8; depth += test::kSanitized ? 7 : 1) {
    const double accepted = expect_identical(fmt::format("mtp at depth {}", depth), [&] {
      return fake_speculator(vocab, {.fixed = depth}, mtp(*network));
    });
    EXPECT_GT(accepted, 0.05);
    EXPECT_LT(accepted, 0.9);
  }
  const double lies =
      expect_identical("lying", [&] { return fake_speculator(vocab, {.fixed = 3}, mtp(*lying)); });
  EXPECT_LT(lies, 0.05);
  // Right about the model's own choice; bias, penalties and suppressed ids make the model choose otherwise.
  const double truths =
      expect_identical("right", [&] { return fake_speculator(vocab, {.fixed = 5}, mtp(*right)); });
  EXPECT_GT(truths, 0.7);
  expect_identical("suffix", [&] {
    return fake_speculator(vocab, {.fixed = 4}, std::make_unique<speculate::SuffixDrafter>());
  });
  expect_identical("auto", [&] {
    return fake_speculator(vocab, {}, mtp(*network), std::make_unique<speculate::SuffixDrafter>());
  });
}

// Random weights, whose text is as wild as it gets, with all the drafters that a golden case has.
TEST(CpuIdentity, speculation_cannot_be_seen_in_the_golden_models) {
  for (const char* name : {"e2b", "dense", "moe", "unified"}) {
    SCOPED_TRACE(name);
    const std::string folder = std::string(SLIP_GOLDEN) + "/" + name;
    const auto target = checkpoint::open(folder + "/target");
    const auto assistant = checkpoint::open_assistant(folder + "/assistant", target->config);
    const auto dflash = checkpoint::open_dflash(folder + "/dflash", target->config);
    backend::cpu::CpuOptions cpu;
    cpu.threads = 2;
    cpu.max_rows = 64;
    const auto backend = backend::cpu::load(target->config, target->weights, cpu);
    test::IdentitySuite suite(*backend,
                              {.prompt = 20, .tokens = 30, .few = test::kSanitized});  // plain, without taps
    backend->set_taps(dflash->config.taps);
    const auto mtp = backend->load_assistant(assistant->config, assistant->weights, {.max_rows = 4});
    const auto block = backend->load_dflash(dflash->config, dflash->weights, {.max_rows = 32});
    for (const int fixed : {-1, 4}) {
      const auto result = suite.differences([&] {
        return fake_speculator(
            backend->config().vocab, {.fixed = fixed}, std::make_unique<speculate::MtpDrafter>(*mtp),
            std::make_unique<speculate::DflashDrafter>(*block), std::make_unique<speculate::SuffixDrafter>());
      });
      for (const auto& difference : result.differences) ADD_FAILURE() << difference;
      for (const auto& failure : result.failures) ADD_FAILURE() << failure;
      EXPECT_GT(result.drafted, 0);
    }
  }
}

TEST(CpuIdentity, speculation_with_a_block_drafter_cannot_be_seen) {
  const test::TempFolder folder;
  const test::TinyModel model;
  folder.write("target/config.json", model.config());
  folder.write("target/model.safetensors", test::safetensors(model.tensors()));
  test::write_folder(folder, test::TinyDflash::config(), test::TinyDflash::tensors(), "dflash/");
  const auto target = checkpoint::open(folder / "target");
  const auto dflash = checkpoint::open_dflash(folder / "dflash", target->config);
  backend::cpu::CpuOptions cpu;
  cpu.threads = 2;
  cpu.max_rows = 48;
  const auto backend = backend::cpu::load(target->config, target->weights, cpu);
  test::IdentitySuite suite(*backend,
                            {.prompt = 15, .tokens = 30, .few = test::kSanitized});  // plain, without taps
  backend->set_taps(dflash->config.taps);
  const auto network = backend->load_dflash(dflash->config, dflash->weights, {.max_rows = 10});
  for (const int fixed : {-1, 1, 3}) {
    const auto result = suite.differences([&] {
      return fake_speculator(backend->config().vocab, {.fixed = fixed},
                             std::make_unique<speculate::DflashDrafter>(*network),
                             std::make_unique<speculate::SuffixDrafter>());
    });
    for (const auto& difference : result.differences) ADD_FAILURE() << difference;
    for (const auto& failure : result.failures) ADD_FAILURE() << failure;
    EXPECT_GT(result.drafted, 0);
  }
}

std::string shape_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, CpuIdentityOf,
                         testing::Values("tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"), shape_name);

}  // namespace
}  // namespace slip::engine
