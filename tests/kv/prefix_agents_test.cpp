// Agents that share a long system prompt, on pools of the sizes of the published models: how much of their prompts is
// there when they come back. Pages are counted, not written.
#include "kv/no_memory.h"
#include "kv/prefix_bench.h"

namespace slip::kv {
namespace {

constexpr int kStep = 512;  // rows of a prompt at once

class Agents {
 public:
  Agents(const char* shape, int agents, int system)
      : layout_(synth::shape_config(shape), Storage::kBf16, kStep),
        pool_(no_memory()),
        classes_(add_classes(pool_, layout_)),
        prefixes_(pool_, shape, {&layout_}),
        system_(system) {
    for (int i = 0; i < agents; ++i) histories_.push_back(random_tokens(1, system));
  }
  /// What one sequence of so many positions takes while its prompt is read, `times` over.
  void set_pool(int positions, int times) {
    pool_.set_budget(static_cast<size_t>(times) *
                     pool_.bytes_needed({static_cast<size_t>(pages_for(positions)),
                                         static_cast<size_t>(layout_.sliding_pages(positions, kStep))}));
  }
  /// One turn of an agent: so many tokens in, so many out. Of its prompt, how much was restored.
  Match turn(size_t agent, int in, int out) {
    std::vector<int>& tokens = histories_[agent];
    tokens = joined(tokens, random_tokens(seed_++, in));
    Cache cache(layout_, pool_, classes_);
    Cache* caches[] = {&cache};
    PrefixCache::Chain chain;
    const auto prompt = static_cast<int>(tokens.size());
    const Match match =
        prefixes_.adopt(chain, {.salt = {}, .content = {.tokens = tokens}, .most = prompt - 1}, caches);
    prefixes_.mark_boundary(chain, system_);
    prefixes_.mark_boundary(chain, prompt);
    const auto run = [&](int rows) {
      ASSERT_TRUE(cache.grow(rows)) << "the pool does not hold what runs: agent " << agent << " at "
                                    << cache.length() << " of " << prompt << ", restored " << match.positions;
      cache.stage(rows);
      cache.commit(rows);
      prefixes_.extend(chain, {.tokens = tokens}, caches, cache.length());
    };
    while (cache.length() < prompt && !testing::Test::HasFatalFailure())
      run(std::min(kStep, prompt - cache.length()));
    for (const int token : random_tokens(seed_++, out)) {
      tokens.push_back(token);
      run(1);
      if (testing::Test::HasFatalFailure()) break;
    }
    prefixes_.mark_boundary(chain, static_cast<int>(tokens.size()));
    asked += prompt;
    restored += match.positions;
    return match;
  }

  int64_t asked = 0, restored = 0;
  double share() const { return static_cast<double>(restored) / static_cast<double>(asked); }
  const PagePool& pool() const { return pool_; }
  PrefixCache& prefixes() { return prefixes_; }

 private:
  Layout layout_;
  PagePool pool_;
  PageClasses classes_;
  PrefixCache prefixes_;
  int system_;
  std::vector<std::vector<int>> histories_;
  uint64_t seed_ = 100;
};

constexpr int kSystem = 20000, kRounds = 3, kIn = 100, kOut = 50;
constexpr int kLongest = kSystem + kRounds * (kIn + kOut);

double restored_in_turns(const char* shape, int times) {
  Agents agents(shape, 20, kSystem);
  agents.set_pool(kLongest, times);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t agent = 0; agent < 20; ++agent) {
      agents.turn(agent, kIn, kOut);
      if (testing::Test::HasFatalFailure()) return 0;
      if (round == 0 && agent == 0) agents.asked = agents.restored = 0;  // somebody has to be first
    }
  }
  const PrefixCache::Counts counts = agents.prefixes().counts();
  EXPECT_LE(agents.pool().bytes_in_use(), agents.pool().budget());
  testing::Test::RecordProperty(std::string(shape) + "_units_given_up",
                                static_cast<int>(counts.evicted_units));
  testing::Test::RecordProperty(std::string(shape) + "_restored_permille",
                                static_cast<int>(1000 * agents.share()));
  return agents.share();
}

TEST(PrefixAgents, find_their_system_prompt_in_a_pool_that_just_holds_what_runs) {
  for (const char* shape : {"e2b", "e4b", "12b", "26b-a4b", "31b"})
    EXPECT_GE(restored_in_turns(shape, 1), 0.8);
}

TEST(PrefixAgents, find_nearly_everything_in_twice_the_pool) {
  for (const char* shape : {"e2b", "e4b", "12b", "26b-a4b", "31b"})
    EXPECT_GE(restored_in_turns(shape, 2), 0.98);
}

TEST(PrefixAgents, twenty_turns_of_a_conversation_are_there_but_for_the_last_tokens) {
  for (const char* shape : {"e2b", "31b"}) {
    Agents agents(shape, 1, 8000);
    agents.set_pool(8000 + 20 * 150, 2);
    for (int turn = 0; turn < 20; ++turn) {
      const Match match = agents.turn(0, 50, 100);
      if (turn == 0) {
        agents.asked = agents.restored = 0;
        continue;
      }
      // All but the new tokens and a unit that was not complete.
      EXPECT_GE(match.positions, 8000 + turn * 150 - kHashUnit) << shape << " " << turn;
    }
    EXPECT_GE(agents.share(), 0.98) << shape;
  }
}

/// The template of larger models changes the last tokens of the prompt when the next turn comes.
TEST(PrefixAgents, a_turn_that_diverges_a_little_before_a_boundary_finds_the_window) {
  for (const char* shape : {"e2b", "31b"}) {
    const Layout layout(synth::shape_config(shape), Storage::kBf16, kStep);
    for (const int before : {1, 10, 63, 64}) {
      PagePool pool(no_memory());
      const PageClasses classes = add_classes(pool, layout);
      PrefixCache prefixes(pool, shape, {&layout});
      const std::vector<int> tokens = random_tokens(1, 6000);
      Cache cache(layout, pool, classes);
      Cache* caches[] = {&cache};
      {
        PrefixCache::Chain chain;
        prefixes.adopt(chain, {.salt = {}, .content = {.tokens = tokens}, .most = 4999}, caches);
        prefixes.mark_boundary(chain, 5000);
        while (cache.length() < 6000) {
          const int rows = std::min(100, 6000 - cache.length());
          cache.stage(rows);
          cache.commit(rows);
          prefixes.extend(chain, {.tokens = tokens}, caches, cache.length());
        }
      }
      cache.release();
      // Memory becomes short, so that windows without a boundary go.
      pool.set_budget(pool.bytes_in_use());
      std::vector<Page*> taken;
      const size_t units = prefixes.counts().nodes;
      while (prefixes.counts().nodes == units && prefixes.counts().evicted_windows < 60)
        taken.push_back(pool.allocate(classes.sliding));
      std::vector<int> next = tokens;
      next.resize(static_cast<size_t>(5000 - before));
      next = joined(next, random_tokens(2, 1000));
      const Match match = prefixes.match(
          {.salt = {}, .content = {.tokens = next}, .most = static_cast<int>(next.size()) - 1});
      EXPECT_GE(match.positions, 5000 - before - 2 * kHashUnit) << shape << " " << before;
      for (Page* page : taken) pool.unref(page);
    }
  }
}

/// 100,000 units: what one page costs does not grow with them.
TEST(PrefixAgents, a_hundred_thousand_units_are_given_up_page_by_page) {
  const Layout layout(synth::shape_config("e2b"), Storage::kBf16, kStep);
  PagePool pool(no_memory());
  const PageClasses classes = add_classes(pool, layout);
  PrefixCache prefixes(pool, "e2b", {&layout});
  constexpr int kPrompts = 400, kTokens = 16384;
  for (int i = 0; i < kPrompts; ++i) {
    const std::vector<int> tokens = random_tokens(static_cast<uint64_t>(i + 1), kTokens);
    Cache cache(layout, pool, classes);
    Cache* caches[] = {&cache};
    PrefixCache::Chain chain;
    prefixes.adopt(chain, {.salt = {}, .content = {.tokens = tokens}, .most = kTokens - 1}, caches);
    while (cache.length() < kTokens) {
      cache.stage(kStep);
      cache.commit(kStep);
      prefixes.extend(chain, {.tokens = tokens}, caches, cache.length());
    }
  }
  EXPECT_EQ(prefixes.counts().nodes, size_t{kPrompts} * kTokens / kHashUnit);
  pool.set_budget(pool.bytes_in_use());
  std::vector<Page*> taken;
  while (Page* page = pool.allocate(classes.full)) taken.push_back(page);
  EXPECT_EQ(prefixes.counts().nodes, 0u);
  EXPECT_EQ(pool.bytes_held_only(), 0u);
  for (Page* page : taken) pool.unref(page);
}

}  // namespace
}  // namespace slip::kv
