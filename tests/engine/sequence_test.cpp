// A sequence driven by hand, with drafts that are right, wrong and both: they must not be seen in anything it
// emits.
#include "engine/sequence.h"

#include <gtest/gtest.h>

#include "engine/fake_backend.h"

namespace slip::engine {
namespace {

using Drafter = std::function<std::vector<int>(std::span<const int> tokens)>;

struct Driven {
  Collected out;
  int passes = 0;
  int cached = 0;  // positions in the cache at the end
};

Driven drive(Request request, const Drafter& drafter, int context = 4096) {
  Driven result;
  FakeBackend backend;
  sample::Sampler sampler(backend.config().vocab);
  request.sink = result.out.sink();
  Sequence sequence(7, std::move(request), {context, 40});
  sequence.admit(backend.new_cache());
  std::vector<backend::Row> rows;
  while (!sequence.finished()) {
    const int known = sequence.need().known;
    int guesses = 0;
    if (drafter && known == 1) {
      const std::vector<int> drafts = drafter(sequence.tokens());
      guesses = sequence.propose({.tokens = drafts});
    }
    rows.clear();
    const int outputs = sequence.add_rows(std::min(known + guesses, backend.max_rows()), 0, rows);
    kv::Cache* cache = sequence.cache();
    const backend::Output output = backend.run({.rows = rows, .sequences = {&cache, 1}});
    EXPECT_EQ(output.rows, outputs);
    sequence.consume(output, 0, outputs, sampler);
    EXPECT_LT(static_cast<size_t>(cache->length()), sequence.tokens().size());
    ++result.passes;
  }
  result.cached = sequence.cache()->length();
  return result;
}

Request varied_request(int kind) {
  Request request = fake_request(20 + kind, 60, static_cast<uint64_t>(kind));
  auto& sampling = request.sampling;
  if (kind % 2 == 1) sampling.temperature = 0;
  if (kind % 3 == 1) sampling.top_k = 5;
  if (kind % 3 == 2) sampling.top_p = 0.7f;
  if (kind % 4 >= 2) sampling.repetition_penalty = 1.5f;
  if (kind % 4 == 3) sampling.presence_penalty = 1;
  if (kind % 5 == 1) sampling.top_logprobs = 3;
  if (kind % 5 == 2) request.stop_ids = {3, 17};
  if (kind % 5 == 3) request.stop_strings = {"abc", "dda"};
  if (kind % 5 == 4) request.max_tokens = 7;
  return request;
}

// Knows the text that plain decoding would write, and goes on past its end.
std::vector<int> oracle(const Request& request) {
  std::vector<int> all = request.prompt;
  const auto output = generate_plainly(request.prompt, request.sampling, 80);
  all.insert(all.end(), output.begin(), output.end());
  return all;
}

Drafter drafter_of(std::vector<int> truth, int depth, int wrong_every) {
  return [=](std::span<const int> tokens) {
    std::vector<int> drafts;
    for (int i = 0; i < depth; ++i) {
      const size_t at = tokens.size() + static_cast<size_t>(i);
      int token = at < truth.size() ? truth[at] : 0;
      if (wrong_every > 0 && at % static_cast<size_t>(wrong_every) == 0) token = (token + 1) % 40;
      drafts.push_back(token);
    }
    return drafts;
  };
}

TEST(Sequence, drafts_cannot_be_seen_in_what_it_emits) {
  for (int kind = 0; kind < 30; ++kind) {
    const Driven plain = drive(varied_request(kind), nullptr);
    const std::vector<int> truth = oracle(varied_request(kind));
    for (const int depth : {0, 1, 2, 5, 8}) {
      for (const int wrong_every : {0, 1, 2, 3, 7}) {
        const Driven drafted = drive(varied_request(kind), drafter_of(truth, depth, wrong_every));
        drafted.out.expect_equal(plain.out);
        EXPECT_EQ(drafted.cached, plain.cached) << "kind " << kind << " depth " << depth;
        EXPECT_LE(drafted.passes, plain.passes);
      }
    }
  }
}

TEST(Sequence, right_drafts_save_passes) {
  const Driven plain = drive(varied_request(0), nullptr);
  const Driven drafted = drive(varied_request(0), drafter_of(oracle(varied_request(0)), 5, 0));
  EXPECT_EQ(plain.passes, 60);
  EXPECT_EQ(drafted.passes, 1 + 10);  // the prompt, then 59 tokens in rounds of six
}

TEST(Sequence, the_cache_ends_right_before_the_last_token) {
  for (int kind = 0; kind < 10; ++kind) {
    const Driven drafted = drive(varied_request(kind), drafter_of(oracle(varied_request(kind)), 6, 0));
    EXPECT_EQ(drafted.cached, 20 + kind + static_cast<int>(drafted.out.tokens.size()) - 1);
  }
}

TEST(Sequence, drafts_stop_at_the_context) {
  const Request request = varied_request(0);
  const Driven plain = drive(varied_request(0), nullptr, 30);
  const Driven drafted = drive(varied_request(0), drafter_of(oracle(request), 8, 0), 30);
  drafted.out.expect_equal(plain.out);
  EXPECT_EQ(drafted.out.finish, FinishReason::kContext);
  EXPECT_EQ(drafted.out.tokens.size(), 10u);
}

TEST(Sequence, tokens_are_those_of_the_definition) {
  for (int kind = 0; kind < 12; ++kind) {
    const Request request = varied_request(kind);
    const auto output = drive(varied_request(kind), nullptr).out.tokens;
    const auto expected = generate_plainly(request.prompt, request.sampling, static_cast<int>(output.size()));
    EXPECT_EQ(output, expected);
  }
}

}  // namespace
}  // namespace slip::engine
