// The decoders in process: every form of the four kinds, with what was drawn coming out again.
#include "media/decoders.h"

#include <gtest/gtest.h>

#include <cstring>

#include "media/samples.h"

namespace slip::media {
namespace {

using test::bytes_of;

Decoded decoded(const std::string& file) {
  return decode_picture(bytes_of(file), {});
}

Fault fault_of(const std::string& file, const Limits& limits = {}) {
  try {
    decode_picture(bytes_of(file), limits);
  } catch (const Refused& refused) {
    return refused.fault();
  }
  return Fault::kNone;
}

/// The largest difference of a sample; 256 when the sizes differ.
int difference(const Pixels& a, const Pixels& b) {
  if (a.width != b.width || a.height != b.height) return 256;
  int worst = 0;
  for (size_t i = 0; i < a.bytes(); ++i) worst = std::max(worst, std::abs(a.rgb[i] - b.rgb[i]));
  return worst;
}

Pixels filled(int width, int height, std::initializer_list<int> rgb) {
  Pixels out(width, height);
  for (size_t i = 0; i < out.bytes(); ++i) out.rgb[i] = static_cast<uint8_t>(rgb.begin()[i % 3]);
  return out;
}

std::vector<int> pixel(const Decoded& image, int x, int y) {
  const uint8_t* at = image.pixels.row(y) + 3 * x;
  return {at[0], at[1], at[2]};
}

TEST(Decoders, lossless_files_give_back_what_was_drawn) {
  const Pixels drawn = test::picture(61, 43);
  EXPECT_EQ(difference(decoded(test::png(drawn)).pixels, drawn), 0);
  EXPECT_EQ(difference(decoded(test::webp(drawn)).pixels, drawn), 0);
}

TEST(Decoders, lossy_files_give_back_nearly_what_was_drawn) {
  const Pixels flat = filled(40, 30, {200, 60, 20});
  for (const test::JpegForm& form :
       {test::JpegForm{}, test::JpegForm{.progressive = true}, test::JpegForm{.subsampled = false},
        test::JpegForm{.restart_rows = 1}, test::JpegForm{.progressive = true, .subsampled = false}}) {
    EXPECT_LE(difference(decoded(test::jpeg(flat, form)).pixels, flat), 3);
  }
  EXPECT_LE(difference(decoded(test::webp(flat, test::WebpForm::kLossy)).pixels, flat), 3);
}

TEST(Decoders, a_grey_jpeg_becomes_three_equal_colours) {
  const Pixels flat = filled(24, 24, {77, 77, 77});
  EXPECT_LE(difference(decoded(test::jpeg(flat, {.grey = true})).pixels, flat), 1);
}

TEST(Decoders, inks_become_light_by_the_formula) {
  // Without black the light of a colour is what was stored; the encoder rounds.
  const Pixels flat = filled(24, 24, {30, 120, 240});
  EXPECT_LE(
      difference(decoded(test::jpeg(flat, {.quality = 100, .cmyk = true, .subsampled = false})).pixels, flat),
      2);
}

/// Bit by bit, as PNG packs samples of fewer than 8 bits.
std::string packed(const std::vector<int>& samples, int depth, int width) {
  std::string out;
  for (size_t row = 0; row < samples.size(); row += static_cast<size_t>(width)) {
    int bits = 0;
    int byte = 0;
    for (int x = 0; x < width; ++x) {
      byte = byte << depth | samples[row + static_cast<size_t>(x)];
      bits += depth;
      if (bits == 8) out += static_cast<char>(byte), bits = byte = 0;
    }
    if (bits > 0) out += static_cast<char>(byte << (8 - bits));
  }
  return out;
}

TEST(Decoders, grey_png_of_every_depth_is_scaled_to_eight_bits) {
  for (const int depth : {1, 2, 4}) {
    const int most = (1 << depth) - 1;
    std::vector<int> samples;
    for (int i = 0; i <= most; ++i) samples.push_back(i);
    const auto image = decoded(test::png(most + 1, 1, packed(samples, depth, most + 1), {0, depth}));
    for (int i = 0; i <= most; ++i)
      EXPECT_EQ(pixel(image, i, 0), std::vector<int>(3, i * 255 / most)) << depth;
  }
}

TEST(Decoders, sixteen_bit_samples_keep_their_high_byte) {
  const std::string grey("\x12\xff\xff\x00\x00\x80", 6);
  const auto image = decoded(test::png(3, 1, grey, {0, 16}));
  EXPECT_EQ(pixel(image, 0, 0), std::vector<int>(3, 0x12));
  EXPECT_EQ(pixel(image, 1, 0), std::vector<int>(3, 0xff));
  EXPECT_EQ(pixel(image, 2, 0), std::vector<int>(3, 0));
  const std::string rgb("\x10\xff\x20\xff\x30\xff", 6);
  EXPECT_EQ(pixel(decoded(test::png(1, 1, rgb, {2, 16})), 0, 0), (std::vector<int>{0x10, 0x20, 0x30}));
}

TEST(Decoders, what_is_transparent_shows_white) {
  const std::string rgba("\x64\x32\x00\x00\x64\x32\x00\xff\x64\x32\x00\x80", 12);
  for (const std::string& file : {test::png(3, 1, rgba, {6, 8}), test::webp_rgba(3, 1, rgba)}) {
    const auto image = decoded(file);
    EXPECT_EQ(pixel(image, 0, 0), (std::vector<int>{255, 255, 255}));
    EXPECT_EQ(pixel(image, 1, 0), (std::vector<int>{100, 50, 0}));
    EXPECT_EQ(pixel(image, 2, 0), (std::vector<int>{177, 152, 127}));
    EXPECT_TRUE(image.transparent);
  }
  const std::string grey_alpha("\x40\x00\x40\xff", 4);
  const auto grey = decoded(test::png(2, 1, grey_alpha, {4, 8}));
  EXPECT_EQ(pixel(grey, 0, 0), std::vector<int>(3, 255));
  EXPECT_EQ(pixel(grey, 1, 0), std::vector<int>(3, 0x40));
  const std::string opaque("\x64\x32\x00\xff", 4);
  EXPECT_FALSE(decoded(test::png(1, 1, opaque, {6, 8})).transparent);
}

TEST(Decoders, a_palette_and_its_transparent_entries_are_looked_up) {
  const std::string palette = test::png_chunk("PLTE", std::string("\xff\x00\x00\x00\xff\x00", 6));
  const std::string clear = test::png_chunk("tRNS", std::string("\xff\x00", 2));
  const auto image = decoded(test::png(2, 1, std::string("\x00\x01", 2), {3, 8}, palette + clear));
  EXPECT_EQ(pixel(image, 0, 0), (std::vector<int>{255, 0, 0}));
  EXPECT_EQ(pixel(image, 1, 0), (std::vector<int>{255, 255, 255}));
}

TEST(Decoders, a_transparent_colour_of_sixteen_bits_must_match_in_all_of_them) {
  const std::string samples("\x12\x34\x12\x35", 4);
  const std::string clear = test::png_chunk("tRNS", std::string("\x12\x34", 2));
  const auto image = decoded(test::png(2, 1, samples, {0, 16}, clear));
  EXPECT_EQ(pixel(image, 0, 0), std::vector<int>(3, 255));
  EXPECT_EQ(pixel(image, 1, 0), std::vector<int>(3, 0x12));
}

TEST(Decoders, interlaced_rows_end_up_in_their_places) {
  const Pixels drawn = test::picture(29, 17);
  const std::string samples(reinterpret_cast<const char*>(drawn.rgb.get()), drawn.bytes());
  EXPECT_EQ(difference(decoded(test::png(29, 17, samples, {2, 8, true})).pixels, drawn), 0);
  std::string rgba;
  for (size_t i = 0; i < samples.size(); i += 3) rgba += samples.substr(i, 3) + '\xff';
  EXPECT_EQ(difference(decoded(test::png(29, 17, rgba, {6, 8, true})).pixels, drawn), 0);
}

std::string stripes(int width, int height) {
  std::string indices;
  for (int i = 0; i < width * height; ++i) indices += static_cast<char>((i / width + i % width) % 16);
  return indices;
}

TEST(Decoders, gif_frames_are_drawn_with_their_palette_in_either_order_of_rows) {
  for (const bool interlaced : {false, true}) {
    const auto image = decoded(test::gif(20, 21, stripes(20, 21), {.interlaced = interlaced}));
    ASSERT_EQ(image.pixels.width, 20);
    ASSERT_EQ(image.pixels.height, 21);
    for (int y = 0; y < 21; ++y) {
      const int i = (y + 3) % 16;
      EXPECT_EQ(pixel(image, 3, y), (std::vector<int>{16 * i, 255 - 16 * i, 8 * i})) << interlaced;
    }
    EXPECT_FALSE(image.transparent);
  }
}

TEST(Decoders, around_a_gif_frame_and_through_it_shows_white) {
  const auto image = decoded(test::gif(
      4, 4, stripes(4, 4), {.transparent = 2, .left = 2, .top = 1, .canvas_width = 8, .canvas_height = 6}));
  ASSERT_EQ(image.pixels.width, 8);
  EXPECT_EQ(pixel(image, 0, 0), (std::vector<int>{255, 255, 255}));
  EXPECT_EQ(pixel(image, 2, 1), (std::vector<int>{0, 255, 0}));
  EXPECT_EQ(pixel(image, 4, 1), (std::vector<int>{255, 255, 255}));
  EXPECT_TRUE(image.transparent);
}

TEST(Decoders, a_frame_that_hangs_over_its_canvas_is_cut) {
  const auto image =
      decoded(test::gif(4, 4, stripes(4, 4), {.left = 2, .top = 2, .canvas_width = 4, .canvas_height = 4}));
  EXPECT_EQ(image.pixels.width, 4);
  EXPECT_EQ(pixel(image, 3, 3), (std::vector<int>{32, 223, 16}));
}

TEST(Decoders, of_an_animation_the_first_frame_is_read) {
  EXPECT_TRUE(decoded(test::gif(4, 4, stripes(4, 4), {.frames = 3})).animated);
  EXPECT_FALSE(decoded(test::gif(4, 4, stripes(4, 4))).animated);
  const std::string animation = test::png_chunk("acTL", std::string("\0\0\0\2\0\0\0\0", 8));
  EXPECT_TRUE(decoded(test::png(1, 1, "abc", {2, 8}, animation)).animated);

  const auto frame = [](const Pixels& pixels, int x) {
    const auto [name, content] = test::webp_chunk(test::webp(pixels));
    const auto size = [](int n) { return test::little32(static_cast<uint32_t>(n)).substr(0, 3); };
    return std::pair<std::string, std::string>(
        "ANMF", size(x / 2) + size(0) + size(pixels.width - 1) + size(pixels.height - 1) + size(100) + '\0' +
                    name + test::little32(static_cast<uint32_t>(content.size())) + content +
                    std::string(content.size() % 2, '\0'));
  };
  const std::string canvas = std::string("\x02\0\0\0", 4) + std::string("\x0b\0\0\x03\0\0", 6);
  const std::string file = test::riff({{"VP8X", canvas},
                                       {"ANIM", std::string(6, '\0')},
                                       frame(filled(4, 4, {10, 20, 30}), 4),
                                       frame(filled(4, 4, {99, 99, 99}), 0)});
  const auto image = decoded(file);
  EXPECT_TRUE(image.animated);
  ASSERT_EQ(image.pixels.width, 12);
  EXPECT_EQ(pixel(image, 0, 0), (std::vector<int>{255, 255, 255}));
  EXPECT_EQ(pixel(image, 4, 0), (std::vector<int>{10, 20, 30}));
  EXPECT_EQ(pixel(image, 8, 0), (std::vector<int>{255, 255, 255}));
}

TEST(Decoders, a_jpeg_that_lacks_only_its_end_marker_is_whole) {
  const std::string file = test::jpeg(test::picture(40, 30));
  const std::string open = file.substr(0, file.size() - 2);
  EXPECT_EQ(difference(decoded(open).pixels, decoded(file).pixels), 0);
  EXPECT_EQ(fault_of(file.substr(0, file.size() - 40)), Fault::kCutOff);
}

TEST(Decoders, a_progressive_jpeg_that_stops_between_scans_is_cut_off) {
  const std::string file = test::jpeg(test::picture(40, 30), {.progressive = true});
  const size_t last_scan = file.rfind("\xff\xda");
  EXPECT_EQ(fault_of(file.substr(0, last_scan)), Fault::kCutOff);
}

TEST(Decoders, sizes_are_refused_from_the_header) {
  const Limits small{.pixels = 1000, .side = 100};
  const Pixels wide = test::picture(101, 2);
  const Pixels many = test::picture(40, 30);
  for (const std::string& file :
       {test::png(wide), test::jpeg(wide), test::webp(wide), test::gif(101, 2, stripes(101, 2))}) {
    EXPECT_EQ(fault_of(file, small), Fault::kSideTooLong);
  }
  for (const std::string& file :
       {test::png(many), test::jpeg(many), test::webp(many), test::gif(40, 30, stripes(40, 30))}) {
    EXPECT_EQ(fault_of(file, small), Fault::kTooManyPixels);
    EXPECT_EQ(fault_of(file, {.pixels = 1200, .side = 40}), Fault::kNone);
  }
}

TEST(Decoders, scans_of_a_progressive_jpeg_are_counted) {
  const std::string file = test::jpeg(test::picture(64, 64), {.progressive = true});
  EXPECT_EQ(fault_of(file, {.scans = 5}), Fault::kTooManyScans);
  EXPECT_EQ(fault_of(file, {.scans = 10}), Fault::kNone);
}

TEST(Decoders, the_name_and_the_fault_are_in_the_sentence_and_no_decoder_speaks) {
  const Refused refused({.fault = Fault::kSideTooLong, .kind = Kind::kPng, .width = 65535, .height = 1},
                        "a b.png");
  EXPECT_STREQ(refused.what(),
               "a b.png: has 65535 x 1 pixels, and at most 32768 a side and 100 million in all are read; "
               "make it smaller");
  EXPECT_EQ(refused.exit_code(), 2);
  EXPECT_EQ(openai_code(refused.fault()), "image_too_large");
}

}  // namespace
}  // namespace slip::media
