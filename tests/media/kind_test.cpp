#include "media/kind.h"

#include <gtest/gtest.h>

#include "media/samples.h"

namespace slip::media {
namespace {

Kind kind_of(const std::string& file) {
  return sniff(test::bytes_of(file));
}

std::string text(std::string_view bytes) {
  return std::string(bytes);
}

using std::literals::operator""sv;

TEST(Kind, pictures_are_known_by_their_first_bytes) {
  const Pixels drawn = test::picture(8, 8);
  EXPECT_EQ(kind_of(test::jpeg(drawn)), Kind::kJpeg);
  EXPECT_EQ(kind_of(test::png(drawn)), Kind::kPng);
  EXPECT_EQ(kind_of(test::webp(drawn)), Kind::kWebp);
  EXPECT_EQ(kind_of(test::gif(1, 1, std::string(1, '\0'))), Kind::kGif);
}

TEST(Kind, what_is_not_read_has_its_own_name) {
  const std::pair<std::string, Kind> files[] = {
      {text("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"sv), Kind::kBmp},
      {text("II*\0\x08\0\0\0"sv), Kind::kTiff},
      {text("MM\0*\0\0\0\x08"sv), Kind::kTiff},
      {text("\0\0\0\x18"
            "ftypheic\0\0\0\0mif1heic"sv),
       Kind::kHeic},
      {text("\0\0\0\x18"
            "ftypmif1\0\0\0\0mif1avif"sv),
       Kind::kAvif},
      {text("\0\0\0\x18"
            "ftypavif\0\0\0\0"sv),
       Kind::kAvif},
      {text("\0\0\0\x0cjP  \r\n\x87\n"sv), Kind::kJpeg2000},
      {text("\xff\x0a\0\0"sv), Kind::kJpegXl},
      {text("\0\0\1\0\1\0"sv), Kind::kIcon},
      {text("8BPS\0\1"sv), Kind::kPhotoshop},
      {text("<?xml version='1.0'?>\n<!-- a -->\n<svg xmlns='http://www.w3.org/2000/svg'/>"sv), Kind::kSvg},
      {text("\xef\xbb\xbf \n<SVG>"sv), Kind::kSvg},
      {text("%PDF-1.7\n"sv), Kind::kPdf},
      {text("\0\0\0\x18"
            "ftypisom\0\0\2\0"sv),
       Kind::kVideo},
      {text("\x1a\x45\xdf\xa3\1\0"sv), Kind::kVideo},
      {text("RIFF\x10\0\0\0AVI LIST"sv), Kind::kVideo},
      {text("RIFF\x10\0\0\0WAVEfmt "sv), Kind::kAudio},
      {text("ID3\4\0"sv), Kind::kAudio},
      {text("OggS\0\2"sv), Kind::kAudio},
      {text("#EXTM3U\nfile:///etc/passwd\n"sv), Kind::kPlaylist},
      {text("PK\3\4\x14\0"sv), Kind::kArchive},
      {text("<!DOCTYPE html><title>404"sv), Kind::kHtml},
      {text("\n<html lang=en>"sv), Kind::kHtml},
  };
  for (const auto& [file, kind] : files) {
    EXPECT_EQ(kind_of(file), kind) << name_of(kind);
    EXPECT_FALSE(is_read(kind));
    EXPECT_NE(name_of(kind), name_of(Kind::kUnknown));
  }
}

TEST(Kind, the_rest_is_unknown) {
  for (const std::string& file :
       {std::string(), std::string("\xff"), std::string("hello"), std::string(2000, '\0'),
        std::string("RIFF\x10\0\0\0ABCD", 12), std::string("<p>"), std::string("\x89PNG")}) {
    EXPECT_EQ(kind_of(file), Kind::kUnknown) << file;
  }
}

TEST(Kind, a_polyglot_is_what_its_first_bytes_say) {
  const std::string page = "<html><script>alert(1)</script>";
  EXPECT_EQ(kind_of(test::png(test::picture(4, 4)) + page), Kind::kPng);
  EXPECT_EQ(kind_of("GIF89a/*" + page), Kind::kGif);
  EXPECT_EQ(kind_of(page + test::png(test::picture(4, 4))), Kind::kHtml);
}

}  // namespace
}  // namespace slip::media
