#include "text/utf8.h"

#include <gtest/gtest.h>

namespace slip::text {
namespace {

TEST(Utf8, characters_of_every_length_are_measured) {
  EXPECT_EQ(character_length("a"), 1u);
  EXPECT_EQ(character_length("éa"), 2u);
  EXPECT_EQ(character_length("▁a"), 3u);
  EXPECT_EQ(character_length("🙂a"), 4u);
  EXPECT_EQ(character_length("\xF4\x8F\xBF\xBF"), 4u) << "U+10FFFF, the last one";
  EXPECT_EQ(character_length(""), 0u);
}

TEST(Utf8, loose_overlong_surrogate_and_cut_bytes_are_no_characters) {
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xE2\x96", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(character_length(bad), 0u);
    EXPECT_FALSE(is_valid_utf8(std::string("ok") + bad));
  }
  EXPECT_TRUE(is_valid_utf8("naïve ▁ 🙂"));
}

TEST(Utf8, trimming_cuts_white_space_of_all_scripts_at_both_ends_only) {
  EXPECT_EQ(trim(" \t\r\n a b \v\f"), "a b");
  EXPECT_EQ(trim("\u00A0\u3000\u2003x\u2028\u0085"), "x");
  EXPECT_EQ(trim("\x1C\x1Fx"), "x");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("\u200Bx\u200B"), "\u200Bx\u200B") << "a zero-width space is no white space";
  EXPECT_EQ(trim("\xA0x\x85"), "\xA0x\x85") << "loose bytes are left alone";
}

}  // namespace
}  // namespace slip::text
