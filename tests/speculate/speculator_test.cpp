// Speculator with a clock that only moves when drafters and passes say so: what it chooses, and what it does
// with what drafters give it.
#include "speculate/speculator.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/fake_drafting.h"

namespace slip::speculate {
namespace {

double now = 0;
double read_now() {
  return now;
}

constexpr int kVocab = 1000;
using Script = engine::ScriptedDrafter::Script;

// Decodes a text that is known in advance, as the engine would.
class Decoding {
 public:
  Decoding(std::vector<int> text, size_t prompt, std::vector<std::unique_ptr<Drafter>> drafters,
           DepthOptions options = {})
      : text_(std::move(text)), speculator(std::move(drafters), kVocab, options, read_now) {
    tokens_.assign(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(prompt));
    tokens_.reserve(text_.size());
    view_ = {
        .id = 1, .tokens = tokens_, .most_tokens = static_cast<int>(text_.size()), .sampling = &sampling_};
    speculator.begin(view_);
  }

  /// Rounds until so many tokens are written; returns the virtual seconds.
  double write(size_t count) {
    const double begin = now;
    for (const size_t end = tokens_.size() + count; tokens_.size() < end;) round();
    return now - begin;
  }

  void round() {
    const SequenceView* view = &view_;
    speculator.propose({&view, 1}, 64, 64);
    const Guesses guesses = speculator.guesses(0);
    const int rows = static_cast<int>(guesses.tokens.size()) + 1;
    for (int i = 0; i + 1 < rows; ++i) ++by[guesses.drafter_of(i)];
    const double seconds = pass(rows);
    now += seconds;
    speculator.passed(rows, 1, seconds, true);
    struct Picked {
      int token;
    };
    const Outcome outcome = accept(
        rows, guesses.tokens, [&](int) { return Picked{text_[tokens_.size()]}; },
        [&](const Picked& picked, int, bool) {
          tokens_.push_back(picked.token);
          view_.tokens = tokens_;
          return tokens_.size() < text_.size();
        });
    speculator.judged(view_, rows - 1, outcome);
    speculator.committed(view_, {.rows = rows, .kept = 1 + outcome.kept_rows});
  }

  const std::vector<int>& tokens() const { return tokens_; }
  std::function<double(int)> pass = [](int rows) { return 0.02 + 0.0005 * rows; };
  std::map<std::string, int> by;  // guesses
 private:
  std::vector<int> text_, tokens_;
  sample::Options sampling_;
  SequenceView view_;

 public:
  Speculator speculator;
};

std::vector<int> noise_text(size_t length, uint64_t seed = 3) {
  std::vector<int> text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<int>(keyed_bits(seed, i) % kVocab));
  return text;
}

// A network that takes a millisecond per guess and knows the text, but for the share it misses.
std::unique_ptr<Drafter> network(std::vector<int> text, double right) {
  return std::make_unique<engine::ScriptedDrafter>([=](std::span<const int> tokens, int depth) {
    std::vector<int> guesses;
    for (size_t at = tokens.size(); guesses.size() < static_cast<size_t>(depth) && at < text.size(); ++at) {
      now += 0.001;
      guesses.push_back(keyed_uniform(17, at) < right ? text[at] : (text[at] + 1) % kVocab);
    }
    return guesses;
  });
}

std::vector<std::unique_ptr<Drafter>> list(std::unique_ptr<Drafter> first,
                                           std::unique_ptr<Drafter> second = nullptr) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::move(first));
  if (second != nullptr) drafters.push_back(std::move(second));
  return drafters;
}

TEST(Speculator, parks_a_network_that_lies_and_loses_nothing) {
  const auto text = noise_text(3000);
  Decoding decoding(text, 10, list(network(text, 0), std::make_unique<SuffixDrafter>()));
  decoding.write(200);
  EXPECT_LE(decoding.write(2000), 2000 * decoding.pass(1) * 1.03);
  EXPECT_EQ(decoding.speculator.decision(0).kind, Decision::Kind::kParked);
  EXPECT_STREQ(decoding.speculator.decision(0).drafter, "scripted");
}

TEST(Speculator, uses_a_network_that_is_right) {
  const auto text = noise_text(3000);
  Decoding decoding(text, 10, list(network(text, 0.8)));
  decoding.write(400);
  EXPECT_LE(decoding.write(2000), 2000 * decoding.pass(1) / 2.0);
}

TEST(Speculator, turns_to_lookups_where_the_text_copies_and_back) {
  // Half noise, then the first half once more, then new noise.
  std::vector<int> text = noise_text(1000);
  text.insert(text.end(), text.begin(), text.begin() + 1000);
  const auto fresh = noise_text(1000, 4);
  text.insert(text.end(), fresh.begin(), fresh.end());
  Decoding decoding(text, 10, list(network(text, 0.6), std::make_unique<SuffixDrafter>()));
  decoding.write(990);
  decoding.by.clear();
  const double copying = decoding.write(1000);
  EXPECT_LT(copying, 1000 * decoding.pass(1) / 5);
  EXPECT_GT(decoding.by["suffix"], 4 * decoding.by["scripted"]);
  decoding.by.clear();
  EXPECT_LT(decoding.write(980), 980 * decoding.pass(1) / 1.3);
  EXPECT_GT(decoding.by["scripted"], 4 * decoding.by["suffix"]);
}

TEST(Speculator, goes_on_after_a_networks_guesses_with_a_lookup) {
  // Alone, the lookup has no match (the last token before is new), but the network finds the way into a
  // passage that was there before.
  std::vector<int> text = noise_text(400);
  for (int i = 0; i < 40; ++i) {
    text.push_back(500 + i);  // new
    text.insert(text.end(), text.begin() + 40, text.begin() + 90);
  }
  for (const int fixed : {-1, 12}) {
    auto shallow = std::make_unique<engine::ScriptedDrafter>([=](std::span<const int> tokens, int depth) {
      now += 0.001;
      std::vector<int> guesses;
      for (size_t at = tokens.size();
           guesses.size() < static_cast<size_t>(std::min(depth, 5)) && at < text.size(); ++at)
        guesses.push_back(text[at]);
      return guesses;
    });
    Decoding decoding(text, 395, list(std::move(shallow), std::make_unique<SuffixDrafter>()),
                      {.fixed = fixed});
    int extended = 0;
    while (decoding.tokens().size() + 20 < text.size()) {
      decoding.round();
      const Guesses guesses = decoding.speculator.guesses(0);
      if (guesses.own > 0 && static_cast<int>(guesses.tokens.size()) > guesses.own) {
        EXPECT_STREQ(guesses.then, "suffix");
        ++extended;
      }
    }
    EXPECT_GT(extended, 5) << fixed;
  }
}

TEST(Speculator, cuts_what_a_drafter_says_to_what_was_asked_and_can_be_fed) {
  const auto text = noise_text(100);
  const auto guesses_of = [&](Script script) {
    Decoding decoding(text, 10, list(std::make_unique<engine::ScriptedDrafter>(std::move(script))),
                      {.fixed = 4});
    decoding.round();
    const auto guesses = decoding.speculator.guesses(0).tokens;
    return std::vector<int>(guesses.begin(), guesses.end());
  };
  using Ints = std::vector<int>;
  EXPECT_EQ(guesses_of([](auto, int) { return Ints(100, 7); }), Ints(4, 7));
  EXPECT_EQ(guesses_of([](auto, int) { return Ints{5, 6, -1, 8}; }), Ints({5, 6}));
  EXPECT_EQ(guesses_of([](auto, int) { return Ints{kVocab, 6}; }), Ints());
  EXPECT_EQ(guesses_of([](auto, int) { return Ints(); }), Ints());
}

TEST(Speculator, asks_for_no_guess_that_could_not_be_kept) {
  const auto text = noise_text(20);
  int most = 0;
  Decoding decoding(
      text, 10, list(std::make_unique<engine::ScriptedDrafter>([&](std::span<const int> tokens, int depth) {
        most = std::max(most, static_cast<int>(tokens.size()) + depth);
        return std::vector<int>();
      })),
      {.fixed = 8});
  decoding.write(10);
  EXPECT_EQ(most, 19);  // the twentieth is sampled after all guesses
}

TEST(Speculator, a_silent_drafter_is_parked_like_one_that_lies) {
  const auto text = noise_text(2000);
  Decoding decoding(text, 10, list(std::make_unique<engine::ScriptedDrafter>([](auto, int) {
                      now += 0.01;  // half a pass, for nothing
                      return std::vector<int>();
                    })));
  decoding.write(200);
  EXPECT_LE(decoding.write(1500), 1500 * decoding.pass(1) * 1.03);
}

TEST(Speculator, goes_on_without_a_drafter_that_fails_at_any_time) {
  class Failing final : public Drafter {
   public:
    explicit Failing(int when) : when_(when) {}
    const char* name() const override { return "failing"; }
    Effort effort() const override { return Effort::kBlock; }
    int most_drafts() const override { return 3; }
    void begin(const SequenceView&) override { check(0); }
    void propose(std::span<Proposal>) override { check(1); }
    void committed(const SequenceView&, const Pass&) override { check(2); }
    void settled(uint64_t) override { check(3); }

   private:
    void check(int now_at) const {
      if (now_at == when_) fail(ErrorKind::kRuntime, "at {}", when_);
    }
    int when_;
  };
  const auto text = noise_text(100);
  for (int when = 0; when < 4; ++when) {
    Decoding decoding(text, 10, list(std::make_unique<Failing>(when), network(text, 1)), {.fixed = 3});
    decoding.write(60);
    decoding.speculator.settled(1);
    ASSERT_EQ(decoding.speculator.failures().size(), 1u);
    EXPECT_EQ(decoding.speculator.failures()[0],
              fmt::format("the failing drafter failed and is not used any more: at {}", when));
    EXPECT_GT(decoding.by["scripted"], 20);
  }
}

}  // namespace
}  // namespace slip::speculate
