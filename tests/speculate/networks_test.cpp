// MtpDrafter and DflashDrafter by hand: what they ask of their networks, and when.
#include <gtest/gtest.h>

#include "engine/fake_drafting.h"

namespace slip::speculate {
namespace {

using engine::FakeAssistant;
using engine::FakeBackend;
using engine::FakeBlockDrafter;

// A sequence whose cache holds all but its last token, as after a pass.
struct Line {
  Line(FakeBackend& target, uint64_t id, int length, const sample::Options& options = {})
      : backend(target), sampling(options), cache(target.new_cache()) {
    tokens = engine::fake_prompt(length, id);
    tokens.reserve(400);
    cache->reserve(400);
    view = {.id = id,
            .tokens = tokens,
            .prompt_tokens = tokens.size(),
            .most_tokens = 400,
            .cache = cache.get(),
            .sampling = &sampling};
  }
  // Feeds all tokens but the last; `hand_over` gets what drafters are told.
  void pass(const std::function<void(const Pass&)>& hand_over) {
    std::vector<backend::Row> rows;
    for (int position = cache->length(); position + 1 < static_cast<int>(tokens.size()); ++position) {
      rows.push_back({.token = tokens[static_cast<size_t>(position)], .position = position});
    }
    const int count = static_cast<int>(rows.size());
    cache->stage(count);
    kv::Cache* one = cache.get();
    const backend::Output output = backend.run({.rows = rows, .sequences = {&one, 1}});
    cache->commit(count);
    hand_over({.rows = count, .kept = count, .hidden = output.hidden + (count - 1) * 4, .taps = output.taps});
  }
  void add(int token) {
    tokens.push_back(token);
    view.tokens = tokens;
  }
  std::vector<int> future(int count) { return engine::generate_plainly(tokens, sampling, count); }

  FakeBackend& backend;
  sample::Options sampling;
  std::vector<int> tokens;
  std::unique_ptr<kv::Cache> cache;
  SequenceView view;
};

TEST(MtpDrafter, follows_the_model_with_the_requests_own_noise) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 1);
  MtpDrafter drafter(assistant);
  sample::Options sampling;
  sampling.temperature = 1;
  sampling.repetition_penalty = 1.1f;
  sampling.frequency_penalty = 3;
  sampling.seed = 5;
  sampling.top_logprobs = 3;
  Line line(backend, 1, 60, sampling);
  drafter.begin(line.view);
  Proposal proposal{.view = &line.view, .depth = 6, .drafts = {}};
  drafter.propose({&proposal, 1});
  EXPECT_TRUE(proposal.drafts.empty()) << "nothing is known before the first pass";
  line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
  drafter.propose({&proposal, 1});
  EXPECT_EQ(proposal.drafts, line.future(6));
  EXPECT_EQ(assistant.steps, 6);
}

TEST(MtpDrafter, batches_ragged_depths_within_the_rows_of_the_assistant) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 1, 3);
  MtpDrafter drafter(assistant);
  std::vector<std::unique_ptr<Line>> lines;
  std::vector<Proposal> proposals;
  for (int i = 0; i < 5; ++i) {
    lines.push_back(std::make_unique<Line>(backend, static_cast<uint64_t>(i), 10 + i));
    drafter.begin(lines.back()->view);
    lines.back()->pass([&](const Pass& pass) { drafter.committed(lines.back()->view, pass); });
    proposals.push_back({.view = &lines.back()->view,
                         .depth = std::vector{4, 1, 0, 6, 2}[static_cast<size_t>(i)],
                         .drafts = {}});
  }
  drafter.propose(proposals);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(proposals[i].drafts, lines[i]->future(proposals[i].depth)) << i;
  EXPECT_EQ(assistant.steps, 6 + 2);  // three together (4, 1, 6), then the last one
}

TEST(MtpDrafter, takes_many_steps_of_a_chain_at_once) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 1);
  assistant.lists = true;
  assistant.most_chain = 4;
  MtpDrafter drafter(assistant);
  Line line(backend, 1, 20);
  drafter.begin(line.view);
  line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
  Proposal proposal{.view = &line.view, .depth = 6, .drafts = {}};
  drafter.propose({&proposal, 1});
  EXPECT_EQ(proposal.drafts, line.future(6));
  EXPECT_EQ(assistant.steps, 6);
  EXPECT_EQ(assistant.chains, 2);  // of four and of two
}

// Chains that take another token than the one drawn, by sequences with all kinds of options: those that only
// the host can draw for among them.
TEST(MtpDrafter, drafts_the_same_however_far_chains_are_right) {
  std::vector<sample::Options> options(4);
  options[1] = {.temperature = 1, .top_k = 8, .top_p = 0.9f, .seed = 3};
  options[2].suppressed = {0, 1, 2};
  options[3] = {.temperature = 0.8f, .top_k = 5, .min_p = 0.05f, .seed = 4};
  for (const bool penalises : {false, true}) {
    options[2].repetition_penalty = penalises ? 1.3f : 1;
    std::vector<std::vector<int>> want;
    for (const int most_chain : {1, 2, 3, 8}) {
      for (const int astray : {0, 1, 2, 5}) {
        FakeBackend backend;
        FakeAssistant assistant(backend, 1, 3);
        assistant.lists = true;
        assistant.most_chain = most_chain;
        assistant.astray = astray;
        MtpDrafter drafter(assistant);
        std::vector<std::unique_ptr<Line>> lines;
        std::vector<Proposal> proposals;
        for (size_t i = 0; i < options.size(); ++i) {
          lines.push_back(std::make_unique<Line>(backend, i, 10 + static_cast<int>(i), options[i]));
          drafter.begin(lines.back()->view);
          lines.back()->pass([&](const Pass& pass) { drafter.committed(lines.back()->view, pass); });
          proposals.push_back(
              {.view = &lines.back()->view, .depth = std::vector{5, 7, 2, 6}[i], .drafts = {}});
        }
        drafter.propose(proposals);
        std::vector<std::vector<int>> got;
        for (const Proposal& proposal : proposals) got.push_back(proposal.drafts);
        if (want.empty()) want = got;
        EXPECT_EQ(got, want) << "chains of " << most_chain << ", astray every " << astray;
      }
    }
  }
}

TEST(MtpDrafter, asks_at_the_position_it_was_told) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 1);
  assistant.own_position = true;  // checked in there
  MtpDrafter drafter(assistant, MtpPosition::kNewestToken);
  Line line(backend, 1, 12);
  drafter.begin(line.view);
  line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
  Proposal proposal{.view = &line.view, .depth = 2, .drafts = {}};
  drafter.propose({&proposal, 1});
  EXPECT_EQ(proposal.drafts.size(), 2u);
}

TEST(MtpDrafter, leaves_guesses_of_another_alone_and_forgets_stale_states) {
  FakeBackend backend;
  FakeAssistant assistant(backend, 1);
  MtpDrafter drafter(assistant);
  Line line(backend, 1, 12);
  drafter.begin(line.view);
  line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
  Proposal given{.view = &line.view, .depth = 2, .drafts = {7}};
  drafter.propose({&given, 1});
  EXPECT_EQ(given.drafts, std::vector<int>({7}));
  drafter.committed(line.view, {.rows = 3, .kept = 3});  // rows without output
  Proposal stale{.view = &line.view, .depth = 2, .drafts = {}};
  drafter.propose({&stale, 1});
  EXPECT_TRUE(stale.drafts.empty());
}

TEST(DflashDrafter, guesses_a_block_from_the_context_it_was_fed) {
  FakeBackend backend(128);
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 1, 8, 32);
  DflashDrafter drafter(network);
  EXPECT_EQ(drafter.most_drafts(), 7);
  EXPECT_EQ(drafter.tap_floats(), 8u);
  // A prompt longer than one call of extend(), and penalties that leave the prompt's words alone.
  Line line(backend, 1, 90, {.frequency_penalty = 3});
  drafter.begin(line.view);
  Proposal proposal{.view = &line.view, .depth = 15, .drafts = {}};
  drafter.propose({&proposal, 1});
  EXPECT_TRUE(proposal.drafts.empty());
  line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
  drafter.propose({&proposal, 1});
  EXPECT_EQ(proposal.drafts, line.future(7));  // greedy; a block has 7
}

TEST(DflashDrafter, reads_its_weights_rarely_while_nobody_asks) {
  FakeBackend backend(128);
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 1);
  DflashDrafter drafter(network);
  Line line(backend, 1, 20);
  drafter.begin(line.view);
  for (int i = 0; i < 100; ++i) {
    line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
    line.add(line.future(1)[0]);
  }
  EXPECT_EQ(network.extends, (19 + 99) / DflashDrafter::kWaitingRows);
  line.pass([&](const Pass& pass) { drafter.committed(line.view, pass); });
  Proposal proposal{.view = &line.view, .depth = 3, .drafts = {}};
  drafter.propose({&proposal, 1});
  EXPECT_EQ(proposal.drafts, line.future(3));
  EXPECT_EQ(network.runs, 1);
}

TEST(DflashDrafter, packs_blocks_into_the_rows_of_the_network) {
  FakeBackend backend(128);
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 1, 8, 12);
  DflashDrafter drafter(network);
  std::vector<std::unique_ptr<Line>> lines;
  std::vector<Proposal> proposals;
  for (int i = 0; i < 4; ++i) {
    lines.push_back(std::make_unique<Line>(backend, static_cast<uint64_t>(i), 10 + i));
    drafter.begin(lines.back()->view);
    lines.back()->pass([&](const Pass& pass) { drafter.committed(lines.back()->view, pass); });
    proposals.push_back({.view = &lines.back()->view,
                         .depth = std::vector{5, 5, 7, 2}[static_cast<size_t>(i)],
                         .drafts = {}});
  }
  drafter.propose(proposals);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(proposals[i].drafts, lines[i]->future(proposals[i].depth)) << i;
  EXPECT_EQ(network.runs, 2);  // 6 + 6 rows, 8 + 3 rows
}

TEST(DflashDrafter, says_nothing_where_its_context_has_a_gap) {
  FakeBackend backend(128);
  backend.set_taps(std::vector<int>{0, 0});
  FakeBlockDrafter network(backend, 1);
  DflashDrafter drafter(network);
  Line line(backend, 1, 20);
  drafter.begin(line.view);
  line.pass([&](const Pass&) {});
  Proposal proposal{.view = &line.view, .depth = 3, .drafts = {}};
  drafter.propose({&proposal, 1});
  EXPECT_TRUE(proposal.drafts.empty());
  EXPECT_THROW(drafter.committed(line.view, {.rows = 1, .kept = 1}), Error);  // no taps
}

}  // namespace
}  // namespace slip::speculate
