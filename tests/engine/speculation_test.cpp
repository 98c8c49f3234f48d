// The engine with a speculator: what a client is told about guesses, and what happens when drafters fail.
// That the output is the same is identity_test.cpp's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <numeric>

#include "engine/engine.h"
#include "engine/fake_drafting.h"

namespace slip::engine {
namespace {

// Knows the text of one request; every `wrong_every`-th token it guesses wrongly.
ScriptedDrafter::Script oracle(const Request& request, int wrong_every) {
  std::vector<int> truth = request.prompt;
  const auto output = generate_plainly(request.prompt, request.sampling, 100);
  truth.insert(truth.end(), output.begin(), output.end());
  return [=](std::span<const int> tokens, int depth) {
    std::vector<int> guesses;
    for (size_t at = tokens.size(); at < tokens.size() + static_cast<size_t>(depth); ++at) {
      const bool wrong = wrong_every > 0 && at % static_cast<size_t>(wrong_every) == 0;
      guesses.push_back(wrong ? (truth[at] + 1) % 40 : truth[at]);
    }
    return guesses;
  };
}

struct Told {
  std::vector<Delta> deltas;
  std::vector<std::vector<int>> rejected;
  Stats stats;
};

Told run(Request request, speculate::Speculator* speculator) {
  FakeBackend backend;
  Engine engine(backend, {}, speculator);
  Told told;
  request.sink = [&](const Delta& delta) {
    told.deltas.push_back(delta);
    told.rejected.emplace_back(delta.rejected.begin(), delta.rejected.end());
    if (delta.stats != nullptr) told.stats = *delta.stats;
  };
  engine.submit(std::move(request));
  engine.run_until_done();
  return told;
}

TEST(Speculation, deltas_say_which_tokens_were_guessed_and_which_guesses_were_wrong) {
  const Request request = fake_request(9, 30, 1);
  const auto speculator =
      fake_speculator(40, {.fixed = 4}, std::make_unique<ScriptedDrafter>(oracle(request, 3)));
  const Told told = run(fake_request(9, 30, 1), speculator.get());
  // Positions 9, 10, 11, ...: the first comes from the prompt; of each round the guesses up to the next
  // multiple of three are right. Rounds start right after one, so they hold two right ones and a wrong one.
  EXPECT_FALSE(told.deltas[0].drafted());
  ASSERT_EQ(told.deltas.size(), 30u);
  int wrong = 0;
  for (size_t i = 1; i < 27; ++i) {
    const bool own = (9 + i) % 3 == 0;
    EXPECT_EQ(told.deltas[i].drafted(), !own) << i;
    EXPECT_EQ(told.rejected[i].empty(), !own) << i;
    if (!own) {
      EXPECT_STREQ(told.deltas[i].drafter, "scripted");
    } else {
      EXPECT_EQ(told.rejected[i][0], (told.deltas[i].token + 1) % 40);
      EXPECT_EQ(told.rejected[i].size(), 2u);  // of four guesses
    }
    wrong += static_cast<int>(told.rejected[i].size());
  }
  EXPECT_GT(wrong, 0);
}

TEST(Speculation, statistics_add_up) {
  const Request request = fake_request(9, 60, 2);
  const auto speculator =
      fake_speculator(40, {.fixed = 4}, std::make_unique<ScriptedDrafter>(oracle(request, 3)));
  const Told told = run(fake_request(9, 60, 2), speculator.get());
  const speculate::Statistics& statistics = told.stats.speculation;
  EXPECT_EQ(told.stats.output_tokens, 60);
  EXPECT_EQ(statistics.committed, 59);
  int accepted = 0, rejected = 0;
  for (size_t i = 0; i < told.deltas.size(); ++i) {
    accepted += told.deltas[i].drafted() ? 1 : 0;
    rejected += static_cast<int>(told.rejected[i].size());
  }
  EXPECT_EQ(statistics.accepted, accepted);
  EXPECT_EQ(statistics.drafted, accepted + rejected);
  EXPECT_EQ(statistics.committed, statistics.rounds + accepted - (told.deltas.back().drafted() ? 1 : 0));
  EXPECT_EQ(statistics.by[0].accepted, accepted);
  EXPECT_EQ(statistics.by[0].rounds, statistics.rounds);
  EXPECT_EQ(std::accumulate(statistics.drafted_at.begin(), statistics.drafted_at.end(), 0),
            statistics.drafted);
  EXPECT_EQ(std::accumulate(statistics.accepted_at.begin(), statistics.accepted_at.end(), 0),
            statistics.accepted);
  EXPECT_GT(statistics.tokens_per_pass(), 2.0);
  EXPECT_GT(statistics.verify_s, 0);
  EXPECT_GT(statistics.draft_s, 0);
  EXPECT_EQ(speculate::sentence(statistics.decision), "scripted at depth 4, as told");
}

TEST(Speculation, without_a_speculator_there_are_rounds_but_no_guesses) {
  const Told told = run(fake_request(9, 20, 2), nullptr);
  EXPECT_EQ(told.stats.speculation.rounds, 19);
  EXPECT_EQ(told.stats.speculation.committed, 19);
  EXPECT_EQ(told.stats.speculation.drafted, 0);
}

TEST(Speculation, right_guesses_save_passes) {
  const Request request = fake_request(9, 61, 3);
  const auto speculator =
      fake_speculator(40, {.fixed = 5}, std::make_unique<ScriptedDrafter>(oracle(request, 0)));
  EXPECT_EQ(run(fake_request(9, 61, 3), speculator.get()).stats.speculation.rounds, 10);
}

TEST(Speculation, learns_the_cost_of_plain_passes_and_compares) {
  const Request request = fake_request(9, 90, 3);
  const auto speculator = fake_speculator(40, {}, std::make_unique<ScriptedDrafter>(oracle(request, 0)));
  const speculate::Statistics statistics = run(fake_request(9, 90, 3), speculator.get()).stats.speculation;
  EXPECT_GT(statistics.compared_s, 0);
  EXPECT_GT(statistics.plain_s, 0);
  EXPECT_GT(statistics.speedup(), 0);
  EXPECT_GT(speculator->plain_seconds(1), 0);
}

TEST(Speculation, a_drafter_that_fails_is_dropped_with_a_sentence_and_ends_nothing) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 1);
  assistant.fail_at = 7;
  const auto speculator =
      fake_speculator(40, {.fixed = 3}, std::make_unique<speculate::MtpDrafter>(assistant));
  Engine engine(backend, {}, speculator.get());
  Collected out;
  Request request = fake_request(5, 30, 1);
  const std::vector<int> expected = generate_plainly(request.prompt, request.sampling, 30);
  request.sink = out.sink();
  engine.submit(std::move(request));
  engine.run_until_done();
  EXPECT_EQ(out.tokens, expected);
  ASSERT_EQ(speculator->failures().size(), 1u);
  EXPECT_EQ(speculator->failures()[0],
            "the mtp drafter failed and is not used any more: the assistant lost its mind");
  EXPECT_EQ(assistant.steps, 7);
}

TEST(Speculation, cancelling_between_rounds_leaves_the_others_untouched) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 0.7);
  const auto speculator =
      fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(assistant),
                      std::make_unique<speculate::SuffixDrafter>());
  Engine engine(backend, {}, speculator.get());
  std::vector<Collected> outs(3);
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < 3; ++i) {
    Request request = fake_request(8, 40, i);
    request.sink = outs[i].sink();
    ids.push_back(engine.submit(std::move(request)));
  }
  for (int step = 0; step < 5; ++step) engine.step();
  engine.cancel(ids[1]);
  engine.run_until_done();
  EXPECT_EQ(outs[1].finish, FinishReason::kCancelled);
  for (const size_t i : {0, 2}) {
    const Request request = fake_request(8, 40, i);
    EXPECT_EQ(outs[i].tokens, generate_plainly(request.prompt, request.sampling, 40));
  }
}

TEST(Speculation, pages_of_drafters_count) {
  FakeBackend backend;
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 1);
  const auto speculator = fake_speculator(40, {}, std::make_unique<speculate::DflashDrafter>(network),
                                          std::make_unique<speculate::SuffixDrafter>());
  const size_t own = backend.kv_layout().bytes_at(300), theirs = network.kv_layout().bytes_at(300);
  EXPECT_GT(theirs, 0u);
  Request request = fake_request(299, 10, 1);
  request.sink = [](const Delta&) {};
  Engine tight(backend, {.cache_bytes = own + theirs - 1}, speculator.get());
  EXPECT_THROW(tight.submit(std::move(request)), Error);
}

bool is_nan(float value) {
  return std::isnan(value);
}

// The youngest loses its pages at every step number in turn, with and without drafters that keep caches.
TEST(Speculation, being_put_aside_at_any_step_cannot_be_seen) {
  for (const int depth : {0, 4}) {
    std::vector<Collected> undisturbed;
    for (int at = -1; at < 50; ++at) {
      FakeBackend backend(24);
      backend.set_taps(std::vector<int>{0, 0});
      FakeBlockDrafter network(backend, 0.7);
      const auto speculator =
          fake_speculator(40, {.fixed = depth}, std::make_unique<speculate::DflashDrafter>(network),
                          std::make_unique<speculate::SuffixDrafter>());
      Engine engine(backend, {}, speculator.get());
      std::vector<Collected> outs(3);
      for (size_t i = 0; i < 3; ++i) {
        Request request = fake_request(30 + static_cast<int>(i), 40, i);
        request.prompt_logprobs = i == 1 ? 2 : -1;
        request.sampling.frequency_penalty = i == 2 ? 0.5f : 0;
        request.sink = outs[i].sink();
        engine.submit(std::move(request));
      }
      bool forced = false;
      for (int step = 0; engine.step(); ++step) {
        if (step != at || engine.running() == 0) continue;
        engine.put_aside_youngest();
        forced = true;
      }
      EXPECT_TRUE(at < 0 || at > 8 || forced);
      // The first token of a prompt has no probability, and what is no number equals nothing.
      for (Collected& out : outs) std::replace_if(out.logprobs.begin(), out.logprobs.end(), is_nan, 0.0f);
      if (at < 0) undisturbed = outs;
      int preempted = 0;
      for (size_t i = 0; i < 3; ++i) {
        outs[i].expect_equal(undisturbed[i]);
        preempted += outs[i].stats.preempted;
      }
      EXPECT_EQ(preempted, forced ? 1 : 0) << at;
      EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
      EXPECT_TRUE(speculator->failures().empty());
    }
  }
}

TEST(Speculation, where_pages_run_out_drafters_keep_their_context) {
  FakeBackend backend(24);
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 1);
  const auto speculator =
      fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::DflashDrafter>(network));
  const size_t pages = backend.kv_layout().bytes_at(1) + network.kv_layout().bytes_at(1);
  Engine engine(backend, {.cache_bytes = 7 * pages}, speculator.get());
  std::vector<Collected> outs(4);
  for (size_t i = 0; i < 4; ++i) {
    Request request = fake_request(100, 400, i);
    request.sampling.temperature = 0;
    request.sink = outs[i].sink();
    engine.submit(std::move(request));
  }
  engine.run_until_done();
  int preempted = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(outs[i].tokens.size(), 400u);
    preempted += outs[i].stats.preempted;
    // Every guess is right, so a sequence that always has some writes five tokens a round.
    EXPECT_LT(outs[i].stats.speculation.rounds, 400 / 5 + 10) << i;
  }
  EXPECT_GT(preempted, 0);
  EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
}

TEST(Speculation, with_more_sequences_than_told_nobody_guesses_and_nobody_can_tell) {
  for (const int bound : {0, 1, 2, 3}) {
    FakeBackend backend;
    FakeAssistant assistant(backend, 1);
    const auto speculator =
        fake_speculator(40, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(assistant));
    Engine engine(backend, {.sequences = 4, .draft_sequences = bound}, speculator.get());
    std::vector<Collected> outs(3);
    for (size_t i = 0; i < 3; ++i) {
      Request request = fake_request(5, 12 + 12 * static_cast<int>(i), i);
      request.sink = outs[i].sink();
      engine.submit(std::move(request));
    }
    int crowded = 0;
    while (engine.step()) {
      if (engine.running() > bound && bound > 0) crowded = assistant.steps;
    }
    EXPECT_EQ(crowded, 0) << "guesses while more than " << bound << " decode";
    EXPECT_GT(assistant.steps, 0) << "the last one is alone in the end";
    for (size_t i = 0; i < 3; ++i) {
      const Request request = fake_request(5, 12 + 12 * static_cast<int>(i), i);
      EXPECT_EQ(outs[i].tokens, generate_plainly(request.prompt, request.sampling, request.max_tokens));
    }
  }
}

TEST(Engine, steps_are_counted_by_their_size) {
  FakeBackend backend(64);
  Engine engine(backend);
  Request request = fake_request(60, 5, 1);
  request.sink = [](const Delta&) {};
  engine.submit(std::move(request));
  engine.run_until_done();
  const StepSizes sizes = engine.load().sizes;
  EXPECT_EQ(sizes.tokens, 65u);
  EXPECT_EQ(sizes.steps[0], 4u) << "of one token";
  EXPECT_EQ(sizes.steps[4], 1u) << "33 to 64: the prompt and the first token";
}

TEST(Engine, the_longest_request_is_one_that_would_be_taken) {
  FakeBackend backend;
  const int context = backend.config().max_positions;
  EXPECT_EQ(Engine(backend).longest(), context);
  EXPECT_LT(Engine(backend, {.context = 20}).longest(), 21);
}

TEST(Speculation, guesses_and_prompts_share_a_narrow_step) {
  FakeBackend backend(6);
  FakeAssistant assistant(backend, 1);
  const auto speculator =
      fake_speculator(40, {.fixed = 8}, std::make_unique<speculate::MtpDrafter>(assistant));
  Engine engine(backend, {.sequences = 4}, speculator.get());
  std::vector<Collected> outs(6);
  for (size_t i = 0; i < 6; ++i) {
    Request request = fake_request(5 + 9 * static_cast<int>(i), 25, i);
    request.sink = outs[i].sink();
    engine.submit(std::move(request));
  }
  engine.run_until_done();
  for (size_t i = 0; i < 6; ++i) {
    const Request request = fake_request(5 + 9 * static_cast<int>(i), 25, i);
    EXPECT_EQ(outs[i].tokens, generate_plainly(request.prompt, request.sampling, 25)) << i;
  }
}

TEST(Engine, an_error_at_admission_keeps_its_kind) {
  FakeBackend backend;
  Engine engine(backend);
  const auto kind_of = [&](std::function<void()> trouble) {
    backend.before_new_cache = std::move(trouble);
    ErrorKind kind = ErrorKind::kUsage;
    Request request = fake_request(5, 5, 1);
    request.sink = [&](const Delta& delta) {
      EXPECT_EQ(delta.finish, FinishReason::kError);
      kind = delta.error_kind;
    };
    engine.submit(std::move(request));
    engine.run_until_done();
    return kind;
  };
  EXPECT_EQ(kind_of([] { fail(ErrorKind::kOutOfMemory, "no room"); }), ErrorKind::kOutOfMemory);
  EXPECT_EQ(kind_of([] { throw std::bad_alloc(); }), ErrorKind::kOutOfMemory);
  EXPECT_EQ(kind_of([] { throw std::runtime_error("odd"); }), ErrorKind::kRuntime);
  EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
}

}  // namespace
}  // namespace slip::engine
