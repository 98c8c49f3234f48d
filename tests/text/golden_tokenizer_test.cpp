// What Hugging Face's tokenizers give for 97 texts, and the loader of those cases for the other tests.
#include "text/golden_tokenizer.h"

#include <gtest/gtest.h>

#include <climits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/mapped_file.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace slip::text {

const std::string& golden_json() {
  static const std::string text = read_text_file(SLIP_TEST_DATA "/golden/tokenizer/tokenizer.json");
  return text;
}

const Tokenizer& golden_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(SLIP_TEST_DATA "/golden/tokenizer/tokenizer.json");
  return tokenizer;
}

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = [] {
    std::vector<GoldenCase> list;
    const auto json = nlohmann::json::parse(read_text_file(SLIP_TEST_DATA "/golden/tokenizer/cases.json"));
    for (const auto& entry : json) list.push_back({entry.at("text"), entry.at("ids"), entry.at("decoded")});
    return list;
  }();
  return cases;
}

namespace {

TEST(GoldenTokenizer, all_97_texts_get_the_ids_of_the_reference) {
  ASSERT_EQ(golden_cases().size(), 97u);
  for (const GoldenCase& golden : golden_cases()) {
    EXPECT_EQ(golden_tokenizer().encode(golden.text), golden.ids) << "text: " << golden.text;
  }
}

TEST(GoldenTokenizer, all_97_texts_decode_like_the_reference) {
  for (const GoldenCase& golden : golden_cases()) {
    EXPECT_EQ(golden_tokenizer().decode(golden.ids), golden.decoded) << "text: " << golden.text;
  }
}

TEST(GoldenTokenizer, a_streamed_text_is_the_decoded_text_in_whole_characters) {
  for (const GoldenCase& golden : golden_cases()) {
    StreamDecoder decoder(golden_tokenizer());
    std::string streamed;
    for (const int id : golden.ids) {
      const std::string piece = decoder.feed(id);
      EXPECT_TRUE(is_valid_utf8(piece)) << "half a character of: " << golden.text;
      streamed += piece;
    }
    EXPECT_EQ(streamed + decoder.finish(), golden.decoded) << "text: " << golden.text;
  }
}

TEST(GoldenTokenizer, texts_without_special_tokens_get_the_same_ids_with_specials_off) {
  int compared = 0;
  for (const GoldenCase& golden : golden_cases()) {
    bool special = false;
    for (const int id : golden.ids) special |= golden_tokenizer().is_special(id);
    if (special) continue;
    ++compared;
    EXPECT_EQ(golden_tokenizer().encode(golden.text, {.specials = false}), golden.ids)
        << "text: " << golden.text;
  }
  EXPECT_GT(compared, 80);
}

TEST(GoldenTokenizer, with_specials_off_no_text_gives_a_special_token_and_none_is_lost) {
  for (const GoldenCase& golden : golden_cases()) {
    const auto ids = golden_tokenizer().encode(golden.text, {.specials = false});
    for (const int id : ids) EXPECT_FALSE(golden_tokenizer().is_special(id)) << "text: " << golden.text;
    EXPECT_EQ(golden_tokenizer().decode(ids), golden.decoded);
  }
}

// The rule of BPE word for word, in quadratic time: join the pair of lowest rank, the leftmost among equals.
std::vector<std::string> merge_slowly(std::vector<std::string> symbols,
                                      const std::map<std::pair<std::string, std::string>, int>& ranks) {
  while (true) {
    int best = INT_MAX;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == INT_MAX) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(GoldenTokenizer, the_heap_merges_as_the_slow_rule_does) {
  std::map<std::pair<std::string, std::string>, int> ranks;
  const auto json = nlohmann::json::parse(golden_json());
  for (const auto& merge : json.at("model").at("merges")) {
    ranks[{merge.at(0), merge.at(1)}] = static_cast<int>(ranks.size());
  }
  std::mt19937 random(3);
  const std::string letters = "etaoinshrdlu\n--.,";
  for (int round = 0; round < 200; ++round) {
    std::string text;
    std::vector<std::string> symbols;
    for (int i = 0; i < 60; ++i) {
      const size_t pick = random() % (letters.size() + 3);
      text += pick < letters.size() ? letters[pick] : ' ';
      symbols.push_back(text.back() == ' ' ? "▁" : text.substr(text.size() - 1));
    }
    std::vector<std::string> pieces;
    for (const int id : golden_tokenizer().encode(text)) pieces.push_back(golden_tokenizer().piece(id));
    EXPECT_EQ(pieces, merge_slowly(symbols, ranks)) << "text: " << text;
  }
}

}  // namespace
}  // namespace slip::text
