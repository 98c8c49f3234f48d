// Pictures made by the test itself, in every form the decoders read, and the small surgery that turns a good
// file into a hostile one. Files are std::string, since that is easiest to cut and join.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "media/kind.h"
#include "media/pixels.h"

namespace slip::media::test {

inline Bytes bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

/// A smooth ground with hard edges.
Pixels picture(int width, int height);

struct JpegForm {
  int quality = 90;
  bool progressive = false;
  bool grey = false;
  bool cmyk = false;       // inverted, as Adobe's programs write it
  bool subsampled = true;  // 4:2:0
  int restart_rows = 0;
  std::string app1{};  // stored as a marker, when not empty
};
std::string jpeg(const Pixels& pixels, const JpegForm& form = {});

struct PngForm {
  int colour_type = 2;  // 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA
  int depth = 8;
  bool interlaced = false;
};
/// Stores `samples` as they are: rows of packed samples of that form, 16-bit ones with their high byte first.
/// `ancillary` are whole chunks put before the pixels.
std::string png(int width, int height, const std::string& samples, const PngForm& form = {},
                const std::string& ancillary = "");
std::string png(const Pixels& pixels);
/// A chunk with its length and check sum.
std::string png_chunk(const std::string& type, const std::string& content);
/// The file with every check sum made right.
std::string with_right_sums(std::string png);

enum class WebpForm { kLossy, kLossless };
std::string webp(const Pixels& pixels, WebpForm form = WebpForm::kLossless);
std::string webp_rgba(int width, int height, const std::string& rgba);
/// RIFF around chunks, given as name and content.
std::string riff(const std::vector<std::pair<std::string, std::string>>& chunks);
/// The chunk of a simple file's picture: "VP8 " or "VP8L" and its content.
std::pair<std::string, std::string> webp_chunk(const std::string& file);

struct GifForm {
  int transparent = -1;  // an index of the palette
  bool interlaced = false;
  int frames = 1;
  int left = 0;  // of the frame on the canvas
  int top = 0;
  int canvas_width = 0;  // the frame's, when 0
  int canvas_height = 0;
};
/// `indices` into a palette where colour i is (16 i, 255 - 16 i, 8 i), i < 16.
std::string gif(int width, int height, const std::string& indices, const GifForm& form = {});

/// An EXIF block that holds an orientation and nothing else.
std::string exif(int orientation, bool big_endian = false, bool prefix = true);

std::string big16(uint32_t value);
std::string big32(uint32_t value);
std::string little16(uint32_t value);
std::string little32(uint32_t value);

/// What `samples` of a file are replaced by.
std::string patched(std::string file, size_t at, const std::string& with);

}  // namespace slip::media::test
