#include "media/orientation.h"

#include <gtest/gtest.h>

#include "media/decoders.h"
#include "media/samples.h"

namespace slip::media {
namespace {

using test::bytes_of;

/// Three columns, two rows, numbered 1 to 6 from the top left.
Pixels numbered() {
  Pixels out(3, 2);
  for (size_t i = 0; i < out.bytes(); ++i) out.rgb[i] = static_cast<uint8_t>(i / 3 + 1);
  return out;
}

std::string shown(int orientation) {
  const Pixels turned = upright(numbered(), orientation);
  std::string text;
  for (int y = 0; y < turned.height; ++y) {
    if (y > 0) text += '/';
    for (int x = 0; x < turned.width; ++x) text += static_cast<char>('0' + turned.row(y)[3 * x]);
  }
  return text;
}

TEST(Orientation, each_of_the_eight_turns_the_picture_as_exif_says) {
  EXPECT_EQ(shown(1), "123/456");
  EXPECT_EQ(shown(2), "321/654");
  EXPECT_EQ(shown(3), "654/321");
  EXPECT_EQ(shown(4), "456/123");
  EXPECT_EQ(shown(5), "14/25/36");
  EXPECT_EQ(shown(6), "41/52/63");
  EXPECT_EQ(shown(7), "63/52/41");
  EXPECT_EQ(shown(8), "36/25/14");
}

TEST(Orientation, pictures_larger_than_a_square_are_turned_whole) {
  const Pixels drawn = test::picture(150, 70);
  const Pixels turned = upright(test::picture(150, 70), 6);
  ASSERT_EQ(turned.width, 70);
  for (int y = 0; y < 70; ++y) {
    for (int x = 0; x < 150; ++x) ASSERT_EQ(turned.row(x)[3 * (69 - y) + 1], drawn.row(y)[3 * x + 1]);
  }
}

TEST(Orientation, it_is_read_in_both_byte_orders_from_every_kind_of_file) {
  for (const bool big : {false, true}) {
    EXPECT_EQ(orientation_of(bytes_of(test::exif(8, big))), 8);
    EXPECT_EQ(orientation_of(bytes_of(test::exif(3, big, false))), 3);
  }
  const Pixels drawn = test::picture(20, 10);
  const std::string bare = test::exif(6, true, false);
  const auto [name, content] = test::webp_chunk(test::webp(drawn));
  const std::string canvas = std::string("\x08\0\0\0", 4) + std::string("\x13\0\0\x09\0\0", 6);
  const std::string samples(reinterpret_cast<const char*>(drawn.rgb.get()), drawn.bytes());
  for (const std::string& file : {test::jpeg(drawn, {.app1 = test::exif(6)}),
                                  test::png(20, 10, samples, {}, test::png_chunk("eXIf", bare)),
                                  test::riff({{"VP8X", canvas}, {name, content}, {"EXIF", bare}})}) {
    const Decoded image = decode_picture(bytes_of(file), {});
    EXPECT_EQ(image.orientation, 6);
    EXPECT_EQ(image.pixels.width, 10);
    EXPECT_EQ(image.pixels.height, 20);
  }
}

TEST(Orientation, blocks_that_make_no_sense_leave_the_picture_as_it_is) {
  const std::string good = test::exif(6);
  for (size_t length = 0; length + 8 < good.size(); ++length) {
    EXPECT_EQ(orientation_of(bytes_of(good.substr(0, length))), 1) << length;
  }
  EXPECT_EQ(orientation_of(bytes_of(test::exif(0))), 1);
  EXPECT_EQ(orientation_of(bytes_of(test::exif(9))), 1);
  EXPECT_EQ(orientation_of(bytes_of(test::patched(good, 10, "\xff\xff\xff\x7f"))), 1);
  EXPECT_EQ(orientation_of(bytes_of(test::patched(good, 8, "\x2b"))), 1);
}

}  // namespace
}  // namespace slip::media
