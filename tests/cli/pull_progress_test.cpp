// The lines of a download, as a pure function of how far it is.
#include "cli/commands/pull_progress.h"

#include <gtest/gtest.h>

#include "cli/terminal/display_width.h"

namespace slip::cli {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

hub::Progress progress_of(const std::vector<hub::FileProgress>& files) {
  hub::Progress progress;
  progress.files = files;
  for (const auto& file : files) {
    progress.total += file.size;
    progress.there += file.there;
  }
  progress.rate = 100e6;
  progress.seconds_left = 400;
  return progress;
}

TEST(BarLines, a_bar_for_each_file_that_is_not_done_and_one_for_all) {
  const std::vector<hub::FileProgress> files{
      {"a/b", "config.json", 1000, 1000, true},
      {"a/b", "model-00001-of-00002.safetensors", 4 * kGiB, kGiB, false},
      {"a/b", "model-00002-of-00002.safetensors", 2 * kGiB, 0, false}};
  const auto lines = bar_lines(progress_of(files), 24, 120);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("model-00001-of-00002.safetensors  [#####....."), 0u) << lines[0];
  EXPECT_NE(lines[0].find(" 25 %  1.00 GiB of 4.00 GiB"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[2].find("all "), 0u);
  EXPECT_NE(lines[2].find(" 17 %  1.00 GiB of 6.00 GiB  95.4 MiB/s  6 min 40 s left"), std::string::npos)
      << lines[2];
}

TEST(BarLines, never_take_more_room_than_the_terminal_has) {
  std::vector<hub::FileProgress> files;
  for (int i = 0; i < 50; ++i)
    files.push_back(
        {"a/b", "模型-" + std::string(60, 'x') + std::to_string(i) + ".safetensors", kGiB, kGiB / 2, false});
  for (const int columns : {10, 40, 80, 200}) {
    for (const int rows : {1, 4, 24}) {
      const auto lines = bar_lines(progress_of(files), rows, columns);
      EXPECT_LE(static_cast<int>(lines.size()), std::max(rows, 3));
      for (const std::string& line : lines) EXPECT_LT(columns_of(line), columns) << line;
    }
  }
}

TEST(BarLines, names_are_shown_as_what_they_are) {
  const std::vector<hub::FileProgress> files{{"a/b", "x\x1b[2J.bin", 10, 1, false}};
  EXPECT_EQ(bar_lines(progress_of(files), 24, 120)[0].find('\x1b'), std::string::npos);
}

TEST(BarLines, times_are_said_in_the_unit_that_fits) {
  hub::Progress progress;
  progress.total = 100;
  progress.seconds_left = 59;
  EXPECT_NE(sum_text(progress).find("59 s left"), std::string::npos);
  progress.seconds_left = 7500;
  EXPECT_NE(sum_text(progress).find("2 h 5 min left"), std::string::npos);
  progress.seconds_left = 1e300;
  EXPECT_NE(sum_text(progress).find("left"), std::string::npos);
}

}  // namespace
}  // namespace slip::cli
