#include "cli/flags/parser.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace slip::cli {
namespace {

const Command kCommand{"demo", "Does nothing", nullptr};

struct Demo {
  std::string text = "unset";
  std::optional<std::string> file;
  std::vector<std::string> stops, words;
  int count = 7;
  std::optional<float> temperature;
  std::string color = "red";
  bool json = false;

  bool parse(const Arguments& args) {
    Parser parser(kCommand, "[WORDS...]");
    parser.words({"", "WORDS", "words"}, words, 0, 3);
    parser.text({"-p,--prompt", "TEXT", "text"}, text);
    parser.text({"-f,--file", "FILE", "file"}, file);
    parser.texts({"--stop", "TEXT", "stops"}, stops);
    parser.integer({"-n,--max-tokens", "N", "count"}, 0, 1000, count);
    parser.number({"--temp", "T", "temperature"}, -1, 100, temperature);
    parser.choice({"--color", "NAME", "color"}, {"red", "green"}, color);
    parser.flag("--json", json, "json");
    return parser.parse(args);
  }
};

std::string complaint(const Arguments& args) {
  Demo demo;
  try {
    demo.parse(args);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(Parser, leaves_what_is_not_given_alone) {
  Demo demo;
  ASSERT_TRUE(demo.parse({}));
  EXPECT_EQ(demo.text, "unset");
  EXPECT_EQ(demo.count, 7);
  EXPECT_FALSE(demo.file);
  EXPECT_FALSE(demo.temperature);
}

TEST(Parser, takes_values_in_every_spelling) {
  Demo demo;
  ASSERT_TRUE(demo.parse({"-n", "12", "--temp=0.5", "--color", "green", "--json", "one", "two"}));
  EXPECT_EQ(demo.count, 12);
  EXPECT_EQ(demo.temperature, 0.5f);
  EXPECT_EQ(demo.color, "green");
  EXPECT_TRUE(demo.json);
  EXPECT_EQ(demo.words, (std::vector<std::string>{"one", "two"}));
}

TEST(Parser, never_reads_meaning_into_a_text) {
  for (const std::string text :
       {"", " ", "--help", "--", "-5", "[a,b]", "{}", "%", "a=b", "\"", "'", "++", "a\nb"}) {
    Demo demo;
    ASSERT_TRUE(demo.parse({"-p", text, "--stop", text, "--stop", text})) << text;
    EXPECT_EQ(demo.text, text);
    EXPECT_EQ(demo.stops, (std::vector<std::string>{text, text})) << text;
  }
}

TEST(Parser, takes_everything_after_two_dashes_as_words) {
  Demo demo;
  ASSERT_TRUE(demo.parse({"--json", "--", "--json", "[a,b]", "-x"}));
  EXPECT_EQ(demo.words, (std::vector<std::string>{"--json", "[a,b]", "-x"}));
}

TEST(Parser, lets_the_last_of_two_equal_options_win) {
  Demo demo;
  ASSERT_TRUE(demo.parse({"-n", "1", "-n", "2"}));
  EXPECT_EQ(demo.count, 2);
}

TEST(Parser, accepts_negative_values) {
  Demo demo;
  ASSERT_TRUE(demo.parse({"--temp", "-0.5"}));
  EXPECT_EQ(demo.temperature, -0.5f);
}

TEST(Parser, refuses_absurd_numbers_with_the_range_and_the_flag) {
  for (const char* bad :
       {"-1", "1001", "99999999999999999999", "abc", "", "1e3", "5x", " 5", "0x10", "1.5"}) {
    const std::string message = complaint({"-n", bad});
    EXPECT_NE(message.find("--max-tokens must be a whole number from 0 to 1000"), std::string::npos)
        << message;
  }
  for (const char* bad : {"nan", "inf", "-inf", "1e999", "101", "warm", ""}) {
    const std::string message = complaint({"--temp", bad});
    EXPECT_NE(message.find("--temp must be a number from -1 to 100"), std::string::npos) << message;
  }
}

TEST(Parser, guesses_what_a_wrong_flag_meant) {
  EXPECT_EQ(complaint({"--tmep", "1"}), "demo has no option '--tmep'; did you mean '--temp'?");
  EXPECT_EQ(complaint({"--promt=x"}), "demo has no option '--promt'; did you mean '--prompt'?");
  EXPECT_EQ(complaint({"--zzzzzzz"}), "demo has no option '--zzzzzzz'; see 'slipstream demo --help'");
}

TEST(Parser, lists_the_choices_and_guesses_among_them) {
  EXPECT_EQ(complaint({"--color", "gren"}),
            "--color must be one of red, green, not 'gren'; did you mean 'green'?");
}

TEST(Parser, refuses_a_flag_without_its_value_and_words_too_many) {
  EXPECT_NE(complaint({"-n"}).find("--max-tokens"), std::string::npos);
  EXPECT_NE(complaint({"a", "b", "c", "d"}).find("'d' is one argument too many"), std::string::npos);
}

TEST(ParseSize, knows_decimal_and_binary_units) {
  EXPECT_EQ(parse_size("--size", "500MB"), 500000000u);
  EXPECT_EQ(parse_size("--size", "1.5GiB"), size_t{3} << 29);
  EXPECT_EQ(parse_size("--size", "4096"), 4096u);
  for (const char* bad : {"", "0", "-1GB", "GB", "1e300GB", "5 apples", "nan"}) {
    EXPECT_THROW(parse_size("--size", bad), Error) << bad;
  }
}

}  // namespace
}  // namespace slip::cli
