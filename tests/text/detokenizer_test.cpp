#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/golden_tokenizer.h"
#include "text/utf8.h"

namespace slip::text {
namespace {

int byte_token(int value) {
  return golden_tokenizer().id_of(byte_piece(static_cast<uint8_t>(value))).value();
}

TEST(StreamDecoder, a_character_in_bytes_appears_when_its_run_has_ended) {
  StreamDecoder decoder(golden_tokenizer());
  EXPECT_EQ(decoder.feed(byte_token(0xF0)), "");
  EXPECT_EQ(decoder.feed(byte_token(0x9F)), "");
  EXPECT_EQ(decoder.feed(byte_token(0x99)), "");
  EXPECT_EQ(decoder.feed(byte_token(0x82)), "");
  EXPECT_EQ(decoder.feed(golden_tokenizer().id_of("a").value()), "🙂a");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, an_unfinished_character_ends_as_replacements_and_the_decoder_is_as_new) {
  StreamDecoder decoder(golden_tokenizer());
  decoder.feed(byte_token(0xF0));
  decoder.feed(byte_token(0x9F));
  EXPECT_EQ(decoder.finish(), std::string(kReplacement) + std::string(kReplacement));
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.feed(golden_tokenizer().id_of("a").value()), "a");
}

TEST(StreamDecoder, hidden_special_tokens_do_not_show_and_shown_ones_do) {
  const int turn_end = golden_tokenizer().id_of("<turn|>").value();
  StreamDecoder hiding(golden_tokenizer(), {.skip_specials = true});
  EXPECT_EQ(hiding.feed(byte_token(0xC3)), "");
  EXPECT_EQ(hiding.feed(turn_end), "");
  EXPECT_EQ(hiding.feed(byte_token(0xA9)), "");
  EXPECT_EQ(hiding.finish(), "é") << "a hidden token does not end the run";
  StreamDecoder showing(golden_tokenizer());
  EXPECT_EQ(showing.feed(turn_end), "<turn|>");
}

TEST(StreamDecoder, random_tokens_stream_in_whole_characters_to_the_decoded_text) {
  const Tokenizer& tokenizer = golden_tokenizer();
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> ids;
    for (int i = 0; i < 40; ++i) {
      const bool byte = random() % 2 == 0;
      ids.push_back(byte ? byte_token(static_cast<int>(random() % 256))
                         : static_cast<int>(random() % static_cast<unsigned>(tokenizer.vocab_size() + 5)));
    }
    for (const bool skip : {true, false}) {
      StreamDecoder decoder(tokenizer, {.skip_specials = skip});
      std::string streamed;
      for (const int id : ids) {
        const std::string piece = decoder.feed(id);
        EXPECT_TRUE(is_valid_utf8(piece));
        streamed += piece;
      }
      EXPECT_EQ(streamed + decoder.finish(), tokenizer.decode(ids, {.skip_specials = skip}));
    }
  }
}

}  // namespace
}  // namespace slip::text
