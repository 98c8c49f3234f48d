#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/noise.h"

namespace slip::engine {
namespace {

struct Result {
  std::string text;
  bool matched = false;
};

// The definition: the match that ends first, the longest of those.
Result search_plainly(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t match = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        match = std::max(match, stop.size());
      }
    }
    if (match > 0) return {text.substr(0, end - match), true};
  }
  return {text, false};
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(noise_key(seed, 1)) {}
  size_t roll(size_t sides) { return keyed_bits(key_, count_++) % sides; }
  std::string word(size_t length, size_t letters) {
    std::string word;
    for (size_t i = 0; i < length; ++i) word += static_cast<char>('a' + roll(letters));
    return word;
  }

 private:
  uint64_t key_, count_ = 0;
};

TEST(StopMatcher, finds_what_a_plain_search_finds_however_the_text_is_cut) {
  int matches = 0;
  for (uint64_t round = 0; round < 5000; ++round) {
    Dice dice(round);
    std::vector<std::string> stops;
    for (size_t i = 0, count = 1 + dice.roll(4); i < count; ++i)
      stops.push_back(dice.word(1 + dice.roll(6), 2));
    const std::string text = dice.word(dice.roll(40), 2);
    StopMatcher matcher(stops);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t piece = dice.roll(5);
      out += matcher.push(std::string_view(text).substr(at, piece));
      at += piece;
      // All that can be given out has been: what is missing is the beginning of some stop string.
      const std::string seen = text.substr(0, at);
      if (!matcher.matched() && out.size() < seen.size()) {
        const std::string held = seen.substr(out.size());
        EXPECT_TRUE(std::any_of(stops.begin(), stops.end(),
                                [&](const auto& stop) { return stop.starts_with(held); }));
      }
    }
    const bool matched = matcher.matched();
    if (!matched) out += matcher.flush();
    const Result expected = search_plainly(text, stops);
    ASSERT_EQ(matched, expected.matched);
    ASSERT_EQ(out, expected.text);
    matches += matched ? 1 : 0;
  }
  EXPECT_GT(matches, 1000);
  EXPECT_LT(matches, 4990);
}

TEST(StopMatcher, passes_text_on_at_once_when_it_cannot_begin_a_stop_string) {
  StopMatcher matcher({"###", "\nUser:"});
  EXPECT_EQ(matcher.push("Hello, "), "Hello, ");
  EXPECT_EQ(matcher.push("a #"), "a ");
  EXPECT_EQ(matcher.push("#"), "");
  EXPECT_EQ(matcher.push(" b\nUs"), "## b");
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.push("er"), "");
  EXPECT_EQ(matcher.push(" c"), "\nUser c");
  EXPECT_EQ(matcher.push("\nUser: hi"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("more"), "");
}

TEST(StopMatcher, gives_back_what_it_held_when_the_text_ends) {
  StopMatcher matcher({"abcd"});
  EXPECT_EQ(matcher.push("xabc"), "x");
  EXPECT_EQ(matcher.flush(), "abc");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, without_stop_strings_everything_passes) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, cuts_between_whole_characters) {
  StopMatcher matcher({"é!"});
  EXPECT_EQ(matcher.push("aè"), "aè");
  EXPECT_EQ(matcher.push("bé"), "b");
  EXPECT_EQ(matcher.push("?"), "é?");
  EXPECT_EQ(matcher.push("é!"), "");
  EXPECT_TRUE(matcher.matched());
}

}  // namespace
}  // namespace slip::engine
