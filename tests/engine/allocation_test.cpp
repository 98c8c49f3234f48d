// Counts operator new for the whole test executable.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/fake_drafting.h"
#include "support/count_allocations.h"

namespace slip::engine {
namespace {

// Slabs that were never used before take memory; these were.
std::unique_ptr<kv::Cache> with_pages(std::unique_ptr<kv::Cache> cache) {
  cache->reserve(4096);
  return cache;
}

TEST(Engine, a_step_that_admits_and_ends_nobody_allocates_nothing) {
  FakeBackend backend(16);
  with_pages(backend.new_cache());
  Engine engine(backend, {.mixed_prompt_rows = 4, .prefix_cache = false});
  size_t tokens = 0, bytes = 0;
  for (int i = 0; i < 4; ++i) {
    Request request = fake_request(30 + i, 500, static_cast<uint64_t>(i));
    request.sampling.top_k = i == 1 ? 10 : 0;
    request.sampling.top_p = i == 2 ? 0.9f : 1.0f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.top_logprobs = 5;
    request.stop_ids = {1000};
    request.stop_strings = {"abcabcabc", "dddddd"};
    request.sink = [&](const Delta& delta) {
      ++tokens;
      bytes += delta.events.size();
    };
    engine.submit(std::move(request));
  }
  engine.step();
  const long before = test::allocations.load();
  for (int step = 0; step < 200; ++step) engine.step();  // the rest of the prompts, then decoding
  EXPECT_EQ(test::allocations.load() - before, 0);
  EXPECT_EQ(engine.running(), 4);
  EXPECT_GT(tokens, 600u);
  EXPECT_GT(bytes, 600u);
}

TEST(Engine, a_round_of_speculation_allocates_nothing_either) {
  for (const int fixed : {-1, 5}) {
    FakeBackend backend(64, fake_config(), 1);
    backend.set_taps(std::vector<int>{0, 0});
    FakeAssistant assistant(backend, 0.7, 3);
    FakeBlockDrafter network(backend, 0.8);
    { const auto one = with_pages(backend.new_cache()), other = with_pages(network.new_cache()); }
    const auto speculator = fake_speculator(
        40, {.fixed = fixed}, std::make_unique<speculate::MtpDrafter>(assistant),
        std::make_unique<speculate::DflashDrafter>(network), std::make_unique<speculate::SuffixDrafter>());
    Engine engine(backend, {.mixed_prompt_rows = 4, .prefix_cache = false}, speculator.get());
    int guessed = 0;
    for (int i = 0; i < 4; ++i) {
      Request request = fake_request(30 + i, 2000, static_cast<uint64_t>(i));
      request.sampling.repetition_penalty = i % 2 == 0 ? 1.1f : 1.0f;
      request.sampling.logit_bias = {{3, 0.5f}};
      request.sampling.temperature = static_cast<float>(i % 2);
      request.sampling.top_logprobs = 5;
      request.stop_strings = {"abcabcabc", "dddddd"};
      request.sink = [&](const Delta& delta) { guessed += delta.drafted() ? 1 : 0; };
      engine.submit(std::move(request));
    }
    engine.step();
    const long before = test::allocations.load();
    for (int step = 0; step < 200; ++step) engine.step();
    EXPECT_EQ(test::allocations.load() - before, 0);
    EXPECT_EQ(engine.running(), 4);
    EXPECT_GT(guessed, fixed > 0 ? 300 : 0);
    EXPECT_TRUE(speculator->failures().empty());
  }
}

}  // namespace
}  // namespace slip::engine
