#include "media/picture_size.h"

#include <gtest/gtest.h>

#include "media/decoders.h"
#include "media/hostile.h"
#include "media/samples.h"

namespace slip::media {
namespace {

using test::bytes_of;

TEST(PictureSize, is_what_the_decoder_finds_in_every_kind) {
  const Pixels drawn = test::picture(61, 43);
  const std::string indices(61 * 43, '\1');
  const std::string samples(61 * 43 * 4, 'a');
  const std::string canvas = std::string("\x10\0\0\0", 4) + std::string("\x3c\0\0\x2a\0\0", 6);
  for (const std::string& file :
       {test::jpeg(drawn), test::jpeg(drawn, {.progressive = true, .app1 = test::exif(1)}),
        test::jpeg(drawn, {.grey = true, .restart_rows = 2}), test::png(drawn),
        test::png(61, 43, samples, {6, 8, true}), test::webp(drawn),
        test::webp(drawn, test::WebpForm::kLossy), test::webp_rgba(61, 43, samples),
        test::riff({{"VP8X", canvas}, test::webp_chunk(test::webp(drawn))}), test::gif(61, 43, indices)}) {
    EXPECT_EQ(picture_size(bytes_of(file)), (PictureSize{61, 43}));
    EXPECT_EQ(decode_picture(bytes_of(file), {}).pixels.width, 61);
  }
}

TEST(PictureSize, a_frame_is_found_behind_fill_bytes_and_long_blocks) {
  const std::string good = test::jpeg(test::picture(61, 43));
  const std::string block = "\xff\xe1" + test::big16(60002) + std::string(60000, '\xff');
  EXPECT_EQ(picture_size(bytes_of(good.substr(0, 2) + block + "\xff\xff" + good.substr(2))),
            (PictureSize{61, 43}));
}

TEST(PictureSize, what_is_cut_off_before_it_or_says_nothing_has_none) {
  const std::string files[] = {test::jpeg(test::picture(9, 9)), test::png(test::picture(9, 9)),
                               test::webp(test::picture(9, 9)), test::gif(9, 9, std::string(81, '\1'))};
  for (const std::string& file : files) {
    EXPECT_FALSE(picture_size(bytes_of(file.substr(0, 9))));
  }
  EXPECT_FALSE(picture_size(bytes_of("GIF89a" + std::string(20, '\0'))));
  EXPECT_FALSE(picture_size(bytes_of("%PDF-1.7 and more of it than a header has")));
  EXPECT_FALSE(picture_size({}));
}

/// A hostile file may say anything; a sound one tells the truth.
TEST(PictureSize, survives_every_hostile_file_and_is_right_where_the_picture_is_sound) {
  for (const test::Hostile& hostile : test::hostile_files()) {
    const auto size = picture_size(bytes_of(hostile.file));
    if (size) {
      EXPECT_TRUE(size->width > 0 && size->height > 0) << hostile.name;
    }
    if (hostile.faults == std::vector{Fault::kNone} && hostile.name != "gif-no-canvas") {
      EXPECT_TRUE(size) << hostile.name;
    }
  }
}

}  // namespace
}  // namespace slip::media
