// Prompts that begin like earlier ones: what is taken from pages, and that nobody can tell by the output.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "engine/fake_drafting.h"

namespace slip::engine {
namespace {

Collected cold(Request request) {
  FakeBackend backend(64, fake_sliding_config());
  Engine engine(backend, {.prefix_cache = false});
  Collected out;
  request.sink = out.sink();
  engine.submit(std::move(request));
  engine.run_until_done();
  return out;
}

Request request_of(std::vector<int> prompt, int max_tokens, uint64_t seed = 1) {
  Request request = fake_request(1, max_tokens, seed);
  request.prompt = std::move(prompt);
  return request;
}

// The first tokens of one text, then another.
std::vector<int> joined(int shared, int own, uint64_t seed) {
  std::vector<int> prompt = fake_prompt(shared, 1000);
  const std::vector<int> rest = fake_prompt(own, seed);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  return prompt;
}

class Prefix : public testing::Test {
 protected:
  void restart(const EngineOptions& options = {}) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(backend_, options, speculator_.get());
  }
  Collected ask(Request request) {
    Collected out;
    request.sink = out.sink();
    engine_->submit(std::move(request));
    engine_->run_until_done();
    return out;
  }

  FakeBackend backend_{64, fake_sliding_config()};
  std::unique_ptr<speculate::Speculator> speculator_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(Prefix, a_prompt_that_begins_like_an_earlier_one_begins_with_its_pages) {
  restart();
  EXPECT_EQ(ask(request_of(joined(700, 30, 1), 20)).stats.cached_tokens, 0);
  const int rows = backend_.rows;
  const Collected hit = ask(request_of(joined(700, 40, 2), 20));
  EXPECT_EQ(hit.stats.cached_tokens, 700 / 64 * 64);
  EXPECT_EQ(hit.stats.matched_tokens, 700 / 64 * 64);
  EXPECT_EQ(hit.stats.match_end, kv::MatchEnd::kTokensDiffer);
  EXPECT_EQ(backend_.rows - rows, 740 - 640 + 19);
  hit.expect_equal(cold(request_of(joined(700, 40, 2), 20)));
}

TEST_F(Prefix, of_the_same_prompt_the_last_rows_are_computed) {
  for (const int length : {64, 65, 128, 256, 257, 300, 512, 700}) {
    restart();
    const Collected first = ask(request_of(joined(length, 0, 1), 5));
    const Collected second = ask(request_of(joined(length, 0, 1), 5));
    EXPECT_EQ(second.stats.cached_tokens, (length - 1) / 64 * 64) << length;
    second.expect_equal(first);
  }
}

TEST_F(Prefix, turns_of_a_conversation_restore_what_was_said) {
  restart();
  std::vector<int> text = fake_prompt(8000, 7);
  int asked = 0, restored = 0;
  for (int turn = 0; turn < 20; ++turn) {
    const std::vector<int> more = fake_prompt(50, 100 + static_cast<uint64_t>(turn));
    text.insert(text.end(), more.begin(), more.end());
    const Collected out = ask(request_of(text, 100, static_cast<uint64_t>(turn)));
    out.expect_equal(cold(request_of(text, 100, static_cast<uint64_t>(turn))));
    if (turn > 0) {
      asked += static_cast<int>(text.size()) - 50;
      restored += out.stats.cached_tokens;
    }
    text.insert(text.end(), out.tokens.begin(), out.tokens.end());
  }
  EXPECT_GE(restored, 0.98 * asked);
}

TEST_F(Prefix, tenants_share_nothing) {
  restart();
  Request first = request_of(joined(500, 0, 1), 5), second = request_of(joined(500, 0, 1), 5);
  first.salt = kv::salt_of("one");
  second.salt = kv::salt_of("other");
  ask(std::move(first));
  EXPECT_EQ(ask(std::move(second)).stats.cached_tokens, 0);
  EXPECT_EQ(ask(request_of(joined(500, 0, 1), 5)).stats.cached_tokens, 0);
}

TEST_F(Prefix, log_probabilities_of_a_prompt_come_from_no_page) {
  restart();
  const auto scored = [] {
    Request request = request_of(joined(200, 0, 1), 5);
    request.prompt_logprobs = 1;
    return request;
  };
  ask(request_of(joined(200, 0, 1), 5));
  const Collected out = ask(scored());
  EXPECT_EQ(out.stats.cached_tokens, 0);
  EXPECT_EQ(out.tokens.size(), 205u);
}

TEST_F(Prefix, equal_prompts_that_arrive_together_are_read_once) {
  restart();
  std::vector<Collected> outs(6);
  for (size_t i = 0; i < outs.size(); ++i) {
    Request request = request_of(joined(1000, 10, i), 8, i);
    request.sink = outs[i].sink();
    engine_->submit(std::move(request));
  }
  engine_->run_until_done();
  EXPECT_LT(backend_.rows, 1010 + 6 * (10 + 64 + 8));
  for (size_t i = 0; i < outs.size(); ++i) {
    outs[i].expect_equal(cold(request_of(joined(1000, 10, i), 8, i)));
    EXPECT_EQ(outs[i].stats.cached_tokens, i == 0 ? 0 : 960) << i;
  }
}

TEST_F(Prefix, who_waits_for_a_prompt_that_is_cancelled_reads_it_himself) {
  restart();
  Collected first, second;
  Request one = request_of(joined(1000, 10, 1), 8), other = request_of(joined(1000, 10, 2), 8);
  one.sink = first.sink();
  other.sink = second.sink();
  const uint64_t id = engine_->submit(std::move(one));
  engine_->submit(std::move(other));
  for (int i = 0; i < 5; ++i) engine_->step();
  EXPECT_EQ(engine_->waiting(), 1);
  engine_->cancel(id);
  engine_->run_until_done();
  EXPECT_EQ(first.finish, FinishReason::kCancelled);
  EXPECT_EQ(second.stats.cached_tokens, 5 * 64);  // what had been read is kept
  second.expect_equal(cold(request_of(joined(1000, 10, 2), 8)));
}

TEST_F(Prefix, a_sequence_that_was_put_aside_comes_back_by_its_own_pages) {
  restart();
  Collected out;
  Request request = request_of(joined(900, 0, 1), 100);
  request.sink = out.sink();
  engine_->submit(std::move(request));
  for (int i = 0; i < 60; ++i) engine_->step();
  const int rows = backend_.rows;
  engine_->put_aside_youngest();
  engine_->step();
  EXPECT_LE(backend_.rows - rows, 64);
  engine_->run_until_done();
  out.expect_equal(cold(request_of(joined(900, 0, 1), 100)));
  EXPECT_EQ(out.stats.preempted, 1);
  EXPECT_EQ(out.stats.cached_tokens, 0);
}

// A draft network's context comes with the target's: as many tokens per pass as without a hit.
TEST(PrefixDrafting, a_drafter_that_keeps_a_cache_guesses_as_well_after_a_hit) {
  FakeBackend backend(64, fake_sliding_config());
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 0.9);
  const auto speculator =
      fake_speculator(40, {.fixed = 5}, std::make_unique<speculate::DflashDrafter>(network));
  Engine engine(backend, {}, speculator.get());
  const auto ask = [&](std::vector<int> prompt) {
    Collected out;
    Request request = request_of(std::move(prompt), 200);
    request.sampling.temperature = 0;
    request.sink = out.sink();
    engine.submit(std::move(request));
    engine.run_until_done();
    return out;
  };
  const Collected first = ask(joined(600, 20, 1));
  const Collected hit = ask(joined(600, 20, 1));
  EXPECT_GE(hit.stats.cached_tokens, 512);
  EXPECT_EQ(hit.tokens, first.tokens);
  EXPECT_EQ(hit.stats.speculation.rounds, first.stats.speculation.rounds);
  EXPECT_TRUE(speculator->failures().empty());
}

// With little memory, with and without drafters: every output is that of the sequence alone, and every page comes back.
TEST(PrefixFuzz, submits_cancels_ends_and_lacks_of_pages_lose_no_page) {
  for (const bool drafts : {false, true}) {
    FakeBackend backend(48, fake_sliding_config());
    backend.set_taps(std::vector<int>{0, 0});
    FakeBlockDrafter network(backend, 0.8);
    std::unique_ptr<speculate::Speculator> speculator;
    if (drafts)
      speculator = fake_speculator(40, {.fixed = 3}, std::make_unique<speculate::DflashDrafter>(network),
                                   std::make_unique<speculate::SuffixDrafter>());
    const size_t pages = backend.kv_layout().bytes_at(1) + network.kv_layout().bytes_at(1);
    Engine engine(backend, {.sequences = 8, .cache_bytes = 40 * pages}, speculator.get());
    auto roll = [count = uint64_t{0}, drafts](uint64_t sides) mutable {
      return static_cast<int>(keyed_bits(drafts ? 3 : 4, count++) % sides);
    };
    struct Asked {
      Collected out;
      std::vector<int> prompt;
      uint64_t id = 0, seed = 0;
      int tokens = 0;
    };
    std::vector<std::unique_ptr<Asked>> all;
    int events = 0;
    while (events < 1500) {
      switch (roll(6)) {
        case 0:
        case 1: {
          auto asked = std::make_unique<Asked>();
          asked->prompt = joined(roll(4) * 150 + 1, 1 + roll(40), static_cast<uint64_t>(roll(5)));
          asked->seed = static_cast<uint64_t>(roll(3));
          asked->tokens = 1 + roll(40);
          Request request = request_of(asked->prompt, asked->tokens, asked->seed);
          request.salt = {.high = static_cast<uint64_t>(roll(2)), .low = 0};
          request.sink = asked->out.sink();
          asked->id = engine.submit(std::move(request));
          all.push_back(std::move(asked));
          ++events;
          break;
        }
        case 2:
          if (!all.empty()) engine.cancel(all[static_cast<size_t>(roll(all.size()))]->id);
          ++events;
          break;
        case 3:
          engine.put_aside_youngest();
          ++events;
          break;
        default:
          for (int i = roll(12); i > 0; --i) engine.step();
      }
    }
    engine.run_until_done();
    EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
    engine.forget_prefixes();
    EXPECT_EQ(backend.pages().bytes_live(), 0u);
    int whole = 0, cached = 0;
    for (const auto& asked : all) {
      ASSERT_NE(asked->out.finish, FinishReason::kNone);
      ASSERT_NE(asked->out.finish, FinishReason::kError) << asked->out.error;
      cached += asked->out.stats.cached_tokens > 0 ? 1 : 0;
      if (asked->out.finish != FinishReason::kMaxTokens) continue;
      ++whole;
      ASSERT_EQ(asked->out.tokens,
                generate_plainly(asked->prompt, request_of({0}, 1, asked->seed).sampling, asked->tokens));
    }
    EXPECT_GT(whole, 200);
    EXPECT_GT(cached, 100);
    EXPECT_TRUE(speculator == nullptr || speculator->failures().empty());
  }
}

}  // namespace
}  // namespace slip::engine
