#include "cli/terminal/output.h"

#include <gtest/gtest.h>

#include "cli/terminal/progress_bar.h"

namespace slip::cli {
namespace {

TEST(BytesText, keeps_three_digits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(size_t{13} << 20), "13.0 MiB");
  EXPECT_EQ(bytes_text((size_t{1} << 30) - 1), "1.00 GiB");
  EXPECT_EQ(bytes_text(size_t{250} << 30), "250 GiB");
}

TEST(CountText, speaks_of_thousands_millions_and_billions) {
  EXPECT_EQ(count_text(812), "812");
  EXPECT_EQ(count_text(4610000000), "4.61 B");
  EXPECT_EQ(count_text(167000000), "167.0 M");
  EXPECT_EQ(count_text(25000), "25.0 k");
}

TEST(Escaped, makes_any_bytes_safe_for_one_line) {
  EXPECT_EQ(escaped("a\nb\tc\\"), "a\\nb\\tc\\\\");
  EXPECT_EQ(escaped("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(escaped("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(escaped("\xe2\x96\x81"), "\xe2\x96\x81");
  EXPECT_EQ(escaped("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\x00");
}

TEST(BarText, grows_with_the_work_and_never_past_its_end) {
  const std::string half = bar_text("loading", 1 << 20, 2 << 20, 3);
  EXPECT_NE(half.find("[###############...............]"), std::string::npos) << half;
  EXPECT_NE(half.find(" 50 %  1.00 MiB of 2.00 MiB  3 s left"), std::string::npos) << half;
  EXPECT_NE(bar_text("loading", 9, 2, 1).find("100 %"), std::string::npos);
  EXPECT_NE(bar_text("loading", 0, 0, 1).find("  0 %"), std::string::npos);
}

}  // namespace
}  // namespace slip::cli
