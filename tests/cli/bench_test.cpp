#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"

namespace slip::cli {
namespace {

using nlohmann::json;

test::Result bench(std::vector<std::string> more) {
  std::vector<std::string> args = {"bench",    "--shape",   "tiny-e2b", "--prompt",  "0",
                                   "--widths", "1",         "--device", "cpu",       "--steps",
                                   "2",        "--repeats", "2",        "--threads", "1"};
  args.insert(args.end(), more.begin(), more.end());
  return test::run(args);
}

TEST(Bench, decodes_sequences_together_after_one_alone) {
  const test::Result result = bench({"--sequences", "3,1,20", "--contexts", "40,0", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json sequences = json::parse(result.out)["sequences"];
  ASSERT_EQ(sequences.size(), 3u);
  const int counts[] = {1, 3, 20};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sequences[i]["count"], counts[i]);
    const double seconds = sequences[i]["seconds_per_step"];
    EXPECT_GT(seconds, 0);
    EXPECT_DOUBLE_EQ(sequences[i]["tokens_per_second"], counts[i] / seconds);
  }
}

TEST(Bench, shows_what_sequences_together_gain_over_one) {
  const test::Result result = bench({"--sequences", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  const size_t table =
      result.out.find("\n| sequences | ms per step | tok/s together | over one |\n|---|---|---|---|\n| 1 | ");
  ASSERT_NE(table, std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" | 1.00 |\n| 2 | ", table), std::string::npos) << result.out;
}

TEST(Bench, measures_no_sequences_unless_asked_to) {
  const test::Result result = bench({"--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(json::parse(result.out).contains("sequences"));
}

TEST(Bench, takes_1_to_128_sequences) {
  for (const std::string list : {"0", "129", "4,", "4;8", "four", "-1"}) {
    const test::Result result = bench({"--sequences=" + list});
    EXPECT_EQ(result.code, 1) << list << ": " << result.err;
    EXPECT_NE(result.err.find("--sequences must be a whole number from 1 to 128, not '"), std::string::npos)
        << list << ": " << result.err;
  }
}

}  // namespace
}  // namespace slip::cli
