#include "synth/synthetic_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/noise.h"
#include "text/chat_template.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace slip::synth {
namespace {

using text::Tokenizer;

constexpr int kGemmaVocab = 262144;

Tokenizer tokenizer_of(int vocab) {
  return Tokenizer::parse(synthetic_tokenizer_json(vocab), "synthetic tokenizer.json");
}

const Tokenizer& gemma_sized() {
  static const Tokenizer tokenizer = tokenizer_of(kGemmaVocab);
  return tokenizer;
}

/// The ids that must come back in any order: neither control tokens nor ambiguous.
std::vector<int> certain_ids(const Tokenizer& tokenizer) {
  const std::vector<int> ambiguous = synthetic_ambiguous_ids(tokenizer.vocab_size());
  std::vector<int> ids;
  for (int id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id) && !std::ranges::binary_search(ambiguous, id)) ids.push_back(id);
  }
  return ids;
}

/// `count` draws from `ids`, the same for equal seeds.
std::vector<int> drawn(const std::vector<int>& ids, uint64_t seed, size_t count) {
  std::vector<int> draws(count);
  for (size_t i = 0; i < count; ++i) draws[i] = ids[keyed_bits(noise_key(seed, 0), i) % ids.size()];
  return draws;
}

std::vector<int> back_again(const Tokenizer& tokenizer, const std::vector<int>& ids) {
  return tokenizer.encode(tokenizer.decode(ids), {.specials = false});
}

TEST(SyntheticTokenizer, every_id_of_every_shape_has_a_token) {
  for (const int vocab : {307, 320, 512, 517, 4096, kGemmaVocab}) {
    const Tokenizer tokenizer = tokenizer_of(vocab);
    ASSERT_EQ(tokenizer.vocab_size(), vocab);
    for (int id = 0; id < vocab; ++id) ASSERT_FALSE(tokenizer.piece(id).empty()) << vocab << ": " << id;
  }
}

TEST(SyntheticTokenizer, ids_that_are_no_control_tokens_come_back_from_their_text_in_any_order) {
  for (const int vocab : {320, 512, 517, 4096}) {
    const Tokenizer tokenizer = tokenizer_of(vocab);
    const std::vector<int> ids = certain_ids(tokenizer);
    ASSERT_GT(ids.size(), 80u) << "words, the space, and the bytes of digits and signs";
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const std::vector<int> draws = drawn(ids, seed, 300);
      ASSERT_EQ(back_again(tokenizer, draws), draws) << "vocabulary " << vocab << ", seed " << seed;
    }
  }
}

TEST(SyntheticTokenizer, all_ids_of_gemmas_vocabulary_come_back_in_rising_falling_and_mixed_order) {
  std::vector<int> ids = certain_ids(gemma_sized());
  EXPECT_EQ(ids.size(), static_cast<size_t>(kGemmaVocab) - 24 - 26 - 128 - 48);
  EXPECT_EQ(back_again(gemma_sized(), ids), ids);
  std::ranges::reverse(ids);
  EXPECT_EQ(back_again(gemma_sized(), ids), ids);
  const std::vector<int> draws = drawn(ids, 7, 200'000);
  EXPECT_EQ(back_again(gemma_sized(), draws), draws);
}

TEST(SyntheticTokenizer, control_tokens_come_back_too_where_special_tokens_are_wanted) {
  std::vector<int> ids = certain_ids(gemma_sized());
  const std::vector<int> words = drawn(ids, 3, 4000);
  std::vector<int> mixed;
  for (int id = 0; id < kGemmaVocab; ++id) {
    if (!gemma_sized().is_special(id)) continue;
    mixed.push_back(id);
    mixed.push_back(words[mixed.size()]);
  }
  EXPECT_EQ(mixed.size(), 48u);
  EXPECT_EQ(gemma_sized().encode(gemma_sized().decode(mixed)), mixed);
}

TEST(SyntheticTokenizer, each_ambiguous_id_does_come_back_as_something_else_somewhere) {
  const Tokenizer tokenizer = tokenizer_of(4096);
  const int word = *tokenizer.id_of("B"), longer = *tokenizer.id_of("Ba");
  for (const int id : synthetic_ambiguous_ids(4096)) {
    const std::vector<int> behind_one{word, id}, behind_another{longer, id};
    EXPECT_TRUE(back_again(tokenizer, behind_one) != behind_one ||
                back_again(tokenizer, behind_another) != behind_another)
        << tokenizer.piece(id);
  }
}

TEST(SyntheticTokenizer, a_reply_that_a_template_trims_keeps_its_ids) {
  std::vector<int> words = certain_ids(gemma_sized());
  std::erase_if(words, [](int id) { return id < 1000; });
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<int> reply = drawn(words, seed, 20);
    std::string said = gemma_sized().decode(reply);
    said.erase(0, said.find_first_not_of(" \t\r\n"));
    said.erase(said.find_last_not_of(" \t\r\n") + 1);
    EXPECT_EQ(gemma_sized().encode(said, {.specials = false}), reply) << said;
  }
}

TEST(SyntheticTokenizer, every_text_has_tokens_and_comes_back_from_them) {
  for (const char* text :
       {"Why is the sky blue?", "  two  spaces\n\n", "na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC",
        "\xF0\x9F\x99\x82", "<bos>text<eos>", "MubafKo, Bab!", "<|\"|>"}) {
    const std::vector<int> ids = gemma_sized().encode(text, {.specials = false});
    EXPECT_EQ(gemma_sized().decode(ids), text);
    for (const int id : ids) EXPECT_FALSE(gemma_sized().is_special(id)) << text;
  }
}

TEST(SyntheticTokenizer, control_tokens_have_gemmas_ids_where_the_vocabulary_reaches_so_far) {
  const std::pair<const char*, int> gemma[] = {{"<pad>", 0},
                                               {"<eos>", 1},
                                               {"<bos>", 2},
                                               {"<unk>", 3},
                                               {"<mask>", 4},
                                               {"<|tool>", 46},
                                               {"<tool|>", 47},
                                               {"<|tool_call>", 48},
                                               {"<tool_call|>", 49},
                                               {"<|tool_response>", 50},
                                               {"<tool_response|>", 51},
                                               {"<|\"|>", 52},
                                               {"<|think|>", 98},
                                               {"<|channel>", 100},
                                               {"<channel|>", 101},
                                               {"<|turn>", 105},
                                               {"<turn|>", 106},
                                               {"<|image>", 255999},
                                               {"<|audio>", 256000},
                                               {"<|image|>", 258880},
                                               {"<|audio|>", 258881},
                                               {"<image|>", 258882},
                                               {"<audio|>", 258883},
                                               {"<|video|>", 258884}};
  const Tokenizer tiny = tokenizer_of(512);
  for (const auto& [token, id] : gemma) {
    EXPECT_EQ(gemma_sized().id_of(token), id) << token;
    ASSERT_TRUE(tiny.id_of(token)) << token;
    if (id < 512) {
      EXPECT_EQ(tiny.id_of(token), id) << token;
    }
    EXPECT_TRUE(gemma_sized().is_special(id)) << token;
    EXPECT_TRUE(tiny.is_special(*tiny.id_of(token))) << token;
  }
}

TEST(SyntheticTokenizer, every_mark_of_a_prompt_is_one_control_token) {
  namespace mark = text::mark;
  for (const int vocab : {307, 512, kGemmaVocab}) {
    const Tokenizer tokenizer = tokenizer_of(vocab);
    for (const std::string_view token :
         {mark::kBos, mark::kTurn, mark::kTurnEnd, mark::kThink, mark::kChannel, mark::kChannelEnd,
          mark::kTool, mark::kToolEnd, mark::kToolCall, mark::kToolCallEnd, mark::kToolResponse,
          mark::kToolResponseEnd, mark::kQuote, mark::kImage, mark::kAudio, mark::kVideo, mark::kEos}) {
      ASSERT_TRUE(tokenizer.id_of(token)) << token;
      EXPECT_EQ(tokenizer.encode(token), std::vector{*tokenizer.id_of(token)});
    }
  }
}

TEST(SyntheticTokenizer, the_ids_a_counting_model_starts_from_are_words) {
  for (int id = 1000; id < 2000; ++id) {
    const std::string& piece = gemma_sized().piece(id);
    EXPECT_TRUE(piece.size() >= 2 && piece[0] >= 'B' && piece[0] <= 'Z') << id << " is " << piece;
  }
}

TEST(SyntheticTokenizer, at_gemmas_size_the_file_is_small_and_a_token_is_as_long_as_gemmas) {
  EXPECT_LT(synthetic_tokenizer_json(kGemmaVocab).size(), size_t{10} << 20);
  size_t bytes = 0;
  for (int id = 0; id < kGemmaVocab; ++id) bytes += gemma_sized().piece(id).size();
  EXPECT_EQ(bytes / kGemmaVocab, 5u);
}

TEST(SyntheticTokenizer, a_vocabulary_without_room_is_refused_by_a_sentence) {
  try {
    synthetic_tokenizer_json(306);
    FAIL() << "it fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("it takes 307"), std::string::npos) << error.what();
  }
}

TEST(SyntheticTokenizer, the_config_beside_it_names_tokens_that_are_there) {
  const auto config = nlohmann::json::parse(synthetic_tokenizer_config());
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token", "image_token", "boi_token",
                           "eoi_token", "audio_token", "boa_token", "eoa_token", "video_token"}) {
    EXPECT_TRUE(gemma_sized().id_of(config.at(name).get<std::string>())) << name;
  }
  EXPECT_EQ(config.at("add_bos_token"), false) << "the template writes it already";
}

TEST(SyntheticTokenizer, the_template_is_that_of_the_model_in_the_box_with_and_without_an_empty_thought) {
  std::ifstream file(SLIP_TEST_DATA "/../models/tiny/chat_template.jinja");
  const std::string box{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(box.empty());
  EXPECT_EQ(synthetic_chat_template(true), box);
  EXPECT_TRUE(text::has_turns(synthetic_chat_template(false)));
  EXPECT_TRUE(text::writes_empty_thought(synthetic_chat_template(true)));
  EXPECT_FALSE(text::writes_empty_thought(synthetic_chat_template(false)));
}

}  // namespace
}  // namespace slip::synth
