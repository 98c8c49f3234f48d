#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/error.h"
#include "text/golden_tokenizer.h"
#include "text/utf8.h"

namespace slip::text {
namespace {

using Ids = std::vector<int>;

// A tokenizer to work out by hand: three letters, two merges, the bytes of U+00E9 and an unknown token.
std::string tiny(const std::string& added,
                 const std::string& model_extra = R"("byte_fallback":true,"fuse_unk":true)") {
  return R"({"added_tokens":[)" + added +
         R"(],"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
    "model":{"type":"BPE","unk_token":"<unk>",)" +
         model_extra + R"(,"vocab":{"<unk>":0,"a":1,"b":2,"▁":3,"ab":4,"aba":5,"<0xC3>":6,"<0xA9>":7,"c":8},
    "merges":["a b",["ab","a"]]}})";
}

std::string added(int id, const std::string& content, const std::string& flags) {
  return R"({"id":)" + std::to_string(id) + R"(,"content":")" + content + R"(",)" + flags + "}";
}

TEST(Tokenizer, merges_by_rank_and_leftmost_first_in_both_spellings_of_merges) {
  const Tokenizer tokenizer = Tokenizer::parse(tiny(""), "tiny");
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{4}));
  EXPECT_EQ(tokenizer.encode("aba"), (Ids{5}));
  EXPECT_EQ(tokenizer.encode("ababab"), (Ids{4, 4, 4}));
  EXPECT_EQ(tokenizer.encode("abaa a"), (Ids{5, 1, 3, 1}));
  EXPECT_EQ(tokenizer.vocab_size(), 9);
  EXPECT_EQ(tokenizer.id_of("aba"), 5);
  EXPECT_EQ(tokenizer.id_of("abab"), std::nullopt);
  EXPECT_EQ(tokenizer.piece(3), "▁");
}

TEST(Tokenizer, a_character_without_token_becomes_bytes_or_one_unknown_token_for_a_run) {
  const Tokenizer fused = Tokenizer::parse(tiny(""), "tiny");
  EXPECT_EQ(fused.encode("é"), (Ids{6, 7}));
  EXPECT_EQ(fused.encode("aèèb"), (Ids{1, 0, 2}));
  const Tokenizer single = Tokenizer::parse(tiny("", R"("byte_fallback":false,"fuse_unk":false)"), "tiny");
  EXPECT_EQ(single.encode("aééb"), (Ids{1, 0, 0, 2}));
}

TEST(Tokenizer, the_longest_added_token_wins_and_needs_no_place_in_the_vocabulary) {
  const auto list = added(9, "ab!", R"("special":true)") + "," + added(10, "ab!!", R"("special":false)");
  const Tokenizer tokenizer = Tokenizer::parse(tiny(list), "tiny");
  EXPECT_EQ(tokenizer.encode("aab!b"), (Ids{1, 9, 2}));
  EXPECT_EQ(tokenizer.encode("aab!!b"), (Ids{1, 10, 2}));
  EXPECT_EQ(tokenizer.encode("ab!", {.specials = false}), (Ids{4, 0}));
  EXPECT_EQ(tokenizer.encode("ab!!", {.specials = false}), (Ids{10}))
      << "an added token that is no special one";
  EXPECT_TRUE(tokenizer.is_special(9));
  EXPECT_FALSE(tokenizer.is_special(10));
}

TEST(Tokenizer, added_tokens_take_white_space_along_when_they_say_so) {
  const Tokenizer strip =
      Tokenizer::parse(tiny(added(9, "<x>", R"("special":true,"lstrip":true,"rstrip":true)")), "tiny");
  EXPECT_EQ(strip.encode("a \n<x> \tb"), (Ids{1, 9, 2}));
}

TEST(Tokenizer, a_single_word_token_is_not_found_inside_a_word) {
  const Tokenizer tokenizer =
      Tokenizer::parse(tiny(added(8, "c", R"("single_word":true,"special":true)")), "tiny");
  EXPECT_EQ(tokenizer.encode("a c"), (Ids{1, 3, 8}));
  EXPECT_EQ(tokenizer.encode("ac"), (Ids{1, 0})) << "and a special token does not come out of BPE either";
}

TEST(Tokenizer, a_normalised_added_token_is_matched_after_spaces_are_replaced) {
  const Tokenizer tokenizer = Tokenizer::parse(tiny(added(9, "b b", R"("normalized":true)")), "tiny");
  EXPECT_EQ(tokenizer.encode("ab b"), (Ids{1, 9}));
  EXPECT_EQ(tokenizer.encode("ab▁b"), (Ids{1, 9}));
}

TEST(Tokenizer, a_merge_cannot_spell_out_a_special_token) {
  const Tokenizer tokenizer = Tokenizer::parse(tiny(added(5, "aba", R"("special":true)")), "tiny");
  EXPECT_EQ(tokenizer.encode("aba"), (Ids{5}));
  EXPECT_EQ(tokenizer.encode("aba", {.specials = false}), (Ids{4, 1}));
}

TEST(Tokenizer, a_marker_of_gemma_is_special_even_if_the_file_does_not_say_so) {
  const Tokenizer tokenizer = Tokenizer::parse(tiny(added(9, "<|turn>", R"("special":false)")), "tiny");
  EXPECT_TRUE(tokenizer.is_special(9));
  EXPECT_EQ(tokenizer.encode("<|turn>", {.specials = false}), (Ids{0}));
}

TEST(Tokenizer, a_bos_is_put_in_front_once) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const int bos = tokenizer.bos().value();
  const Ids plain = tokenizer.encode("Hello");
  Ids with_bos{bos};
  with_bos.insert(with_bos.end(), plain.begin(), plain.end());
  EXPECT_EQ(tokenizer.encode("Hello", {.add_bos = true}), with_bos);
  EXPECT_EQ(tokenizer.encode("<bos>Hello", {.add_bos = true}), with_bos);
  EXPECT_EQ(tokenizer.encode("", {.add_bos = true}), (Ids{bos}));
  const Ids literal = tokenizer.encode("<bos>", {.specials = false, .add_bos = true});
  EXPECT_EQ(literal.front(), bos);
  EXPECT_EQ(tokenizer.decode(literal), "<bos><bos>") << "the second one is text";
  EXPECT_FALSE(tokenizer.is_special(literal[1]));
  EXPECT_THROW(Tokenizer::parse(tiny(""), "tiny").encode("a", {.add_bos = true}), Error);
}

TEST(Tokenizer, bytes_that_are_no_utf8_become_byte_tokens) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const std::string broken = "a\xFF\xC3(\xED\xA0\x80\xF0\x9F\x99";
  const Ids ids = tokenizer.encode(broken);
  std::string bytes;
  for (const int id : ids) {
    const int byte = byte_value(tokenizer.piece(id));
    bytes += byte >= 0 ? std::string(1, static_cast<char>(byte)) : tokenizer.piece(id);
  }
  EXPECT_EQ(bytes, broken) << "no byte may be lost";
  EXPECT_TRUE(is_valid_utf8(tokenizer.decode(ids)));
}

TEST(Tokenizer, any_bytes_encode_and_decode_without_harm) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 80, '\0');
    for (char& c : text)
      c = static_cast<char>(random() % 3 == 0 ? random() : "<|bos>turn ▁\n"[random() % 15]);
    for (const bool specials : {true, false}) {
      const Ids ids = golden_tokenizer().encode(text, {.specials = specials});
      for (const int id : ids) EXPECT_TRUE(specials || !golden_tokenizer().is_special(id));
      EXPECT_TRUE(is_valid_utf8(golden_tokenizer().decode(ids)));
    }
  }
}

TEST(Tokenizer, decoding_hides_specials_on_request_and_ignores_ids_without_a_token) {
  const Tokenizer& tokenizer = golden_tokenizer();
  Ids ids = tokenizer.encode("<bos>Hello world<eos>");
  EXPECT_EQ(tokenizer.decode(ids), "<bos>Hello world<eos>");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_specials = true}), "Hello world");
  for (const int bad :
       {-1, tokenizer.vocab_size(), std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    ids.insert(ids.begin() + 1, bad);
    EXPECT_EQ(tokenizer.piece(bad), "");
    EXPECT_FALSE(tokenizer.is_special(bad));
  }
  EXPECT_EQ(tokenizer.decode(ids, {.skip_specials = true}), "Hello world");
}

TEST(Tokenizer, a_run_of_bytes_that_is_no_utf8_decodes_to_one_replacement_per_byte) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const auto byte = [&](int value) {
    return tokenizer.id_of(byte_piece(static_cast<uint8_t>(value))).value();
  };
  const int letter = tokenizer.id_of("a").value();
  const std::string replacement(kReplacement);
  EXPECT_EQ(tokenizer.decode(Ids{byte(0xC3), byte(0xA9)}), "é");
  EXPECT_EQ(tokenizer.decode(Ids{letter, byte(0xC3), letter}), "a" + replacement + "a");
  EXPECT_EQ(tokenizer.decode(Ids{byte(0xC3), byte(0xA9), byte(0xFF)}),
            replacement + replacement + replacement);
}

// Long texts without a word's end. A method that looks at all symbols for every merge would take 10^12 steps
// for each of them, and the time limit of the test run would end it.

TEST(Tokenizer, a_megabyte_of_prose_comes_back_from_its_tokens) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const auto there_and_back = [&](const std::string& text) {
    return tokenizer.decode(tokenizer.encode(text, {.specials = false}));
  };
  std::string prose;
  while (prose.size() < 1 << 20) {
    for (const GoldenCase& golden : golden_cases()) {
      if (there_and_back(golden.text) == golden.text) prose += golden.text + " ";  // others are no UTF-8
    }
  }
  EXPECT_TRUE(there_and_back(prose) == prose);
}

TEST(Tokenizer, a_megabyte_of_one_character_comes_back_from_its_tokens) {
  for (const char c : {'x', 'e', '-', '\n', ' ', '<', '\xFF'}) {
    const std::string text(1 << 20, c);
    const Ids ids = golden_tokenizer().encode(text);
    if (c == '\xFF') {
      EXPECT_EQ(ids, Ids(text.size(), golden_tokenizer().id_of("<0xFF>").value()));
    } else {
      EXPECT_TRUE(golden_tokenizer().decode(ids) == text) << "of " << c;
    }
  }
}

TEST(Tokenizer, a_megabyte_that_merges_at_every_step_becomes_its_longest_tokens) {
  std::string vocab = R"("x":0)";
  std::string merges;
  for (int power = 0; power < 8; ++power) {
    const std::string half(1u << power, 'x');
    vocab += R"(,")" + half + half + R"(":)" + std::to_string(power + 1);
    merges += (power == 0 ? R"(")" : R"(,")") + half + " " + half + R"(")";
  }
  const Tokenizer doubling = Tokenizer::parse(
      R"({"model":{"type":"BPE","unk_token":"x","vocab":{)" + vocab + R"(},"merges":[)" + merges + "]}}",
      "doubling");
  const std::string text(1 << 20, 'x');
  EXPECT_EQ(doubling.encode(text), Ids((1 << 20) / 256, 8));
}

TEST(Tokenizer, a_text_too_long_is_refused) {
  EXPECT_THROW(golden_tokenizer().encode(std::string(Tokenizer::kLongestText + 1, 'a')), Error);
}

}  // namespace
}  // namespace slip::text
