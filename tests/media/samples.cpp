#include "media/samples.h"

#include <gif_lib.h>
#include <webp/encode.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <jpeglib.h>

#include "base/check.h"

namespace slip::media::test {
namespace {

uint8_t to_byte(int value) {
  return static_cast<uint8_t>(value);
}

/// The encoder's input, row by row, in the colours of the form.
std::vector<JSAMPLE> jpeg_row(const Pixels& pixels, int y, const JpegForm& form) {
  std::vector<JSAMPLE> row;
  const uint8_t* rgb = pixels.row(y);
  for (int x = 0; x < pixels.width; ++x, rgb += 3) {
    if (form.grey) {
      row.push_back(rgb[1]);
    } else if (form.cmyk) {
      row.insert(row.end(), {rgb[0], rgb[1], rgb[2], 255});
    } else {
      row.insert(row.end(), rgb, rgb + 3);
    }
  }
  return row;
}

void set_form(jpeg_compress_struct& info, const JpegForm& form) {
  info.input_components = form.grey ? 1 : form.cmyk ? 4 : 3;
  info.in_color_space = form.grey ? JCS_GRAYSCALE : form.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, form.quality, TRUE);
  info.restart_in_rows = form.restart_rows;
  if (form.progressive) jpeg_simple_progression(&info);
  if (!form.subsampled) {
    for (int c = 0; c < info.num_components; ++c)
      info.comp_info[c].h_samp_factor = info.comp_info[c].v_samp_factor = 1;
  }
}

std::string deflated(const std::string& data) {
  uLongf size = compressBound(data.size());
  std::string out(size, '\0');
  SLIP_CHECK(compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                       reinterpret_cast<const Bytef*>(data.data()), data.size(), 9) == Z_OK);
  out.resize(size);
  return out;
}

size_t row_bytes(int width, const PngForm& form) {
  const size_t channels = form.colour_type == 2   ? 3
                          : form.colour_type == 4 ? 2
                          : form.colour_type == 6 ? 4
                                                  : 1;
  return (static_cast<size_t>(width) * channels * static_cast<size_t>(form.depth) + 7) / 8;
}

/// The rows of an image, each behind its filter byte. Interlaced ones need whole bytes a pixel.
std::string filtered_rows(int width, int height, const std::string& samples, const PngForm& form) {
  std::string out;
  const size_t stride = row_bytes(width, form);
  if (!form.interlaced) {
    for (size_t y = 0; y < static_cast<size_t>(height); ++y) out += '\0' + samples.substr(y * stride, stride);
    return out;
  }
  const size_t pixel = row_bytes(1, form);
  constexpr int kLeft[] = {0, 4, 0, 2, 0, 1, 0};
  constexpr int kTop[] = {0, 0, 4, 0, 2, 0, 1};
  constexpr int kRight[] = {8, 8, 4, 4, 2, 2, 1};
  constexpr int kDown[] = {8, 8, 8, 4, 4, 2, 2};
  for (int pass = 0; pass < 7; ++pass) {
    if (kLeft[pass] >= width) continue;
    for (int y = kTop[pass]; y < height; y += kDown[pass]) {
      out += '\0';
      for (int x = kLeft[pass]; x < width; x += kRight[pass]) {
        out += samples.substr(static_cast<size_t>(y) * stride + static_cast<size_t>(x) * pixel, pixel);
      }
    }
  }
  return out;
}

std::string taken(uint8_t* data, size_t size) {
  std::string out(reinterpret_cast<const char*>(data), size);
  WebPFree(data);
  return out;
}

int append(GifFileType* gif, const GifByteType* data, int count) {
  static_cast<std::string*>(gif->UserData)
      ->append(reinterpret_cast<const char*>(data), static_cast<size_t>(count));
  return count;
}

void put_frame(GifFileType* out, int width, int height, const std::string& indices, const GifForm& form) {
  const GraphicsControlBlock control{DISPOSAL_UNSPECIFIED, false, 10, form.transparent};
  GifByteType block[4];
  EGifGCBToExtension(&control, block);
  SLIP_CHECK(EGifPutExtension(out, GRAPHICS_EXT_FUNC_CODE, 4, block) == GIF_OK);
  SLIP_CHECK(EGifPutImageDesc(out, form.left, form.top, width, height, form.interlaced, nullptr) == GIF_OK);
  constexpr int kFirst[] = {0, 4, 2, 1};
  constexpr int kStep[] = {8, 8, 4, 2};
  for (int pass = 0; pass < (form.interlaced ? 4 : 1); ++pass) {
    const int first = form.interlaced ? kFirst[pass] : 0;
    for (int y = first; y < height; y += form.interlaced ? kStep[pass] : 1) {
      std::string row =
          indices.substr(static_cast<size_t>(y) * static_cast<size_t>(width), static_cast<size_t>(width));
      SLIP_CHECK(EGifPutLine(out, reinterpret_cast<GifPixelType*>(row.data()), width) == GIF_OK);
    }
  }
}

}  // namespace

Pixels picture(int width, int height) {
  Pixels out(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int edge = (x / 7 + y / 5) % 3 == 0 ? 60 : 0;
      uint8_t* rgb = out.row(y) + 3 * x;
      rgb[0] = to_byte(x * 190 / width + edge);
      rgb[1] = to_byte(y * 190 / height + edge);
      rgb[2] = to_byte(200 - (x + y) * 190 / (width + height) + edge / 2);
    }
  }
  return out;
}

std::string jpeg(const Pixels& pixels, const JpegForm& form) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(pixels.width);
  info.image_height = static_cast<JDIMENSION>(pixels.height);
  set_form(info, form);
  jpeg_start_compress(&info, TRUE);
  if (!form.app1.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(form.app1.data()),
                      static_cast<unsigned>(form.app1.size()));
  }
  for (int y = 0; y < pixels.height; ++y) {
    std::vector<JSAMPLE> row = jpeg_row(pixels, y, form);
    JSAMPLE* rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<const char*>(data), size);
  std::free(data);
  return out;
}

std::string png_chunk(const std::string& type, const std::string& content) {
  const std::string body = type + content;
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big32(static_cast<uint32_t>(content.size())) + body + big32(static_cast<uint32_t>(sum));
}

std::string with_right_sums(std::string png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(png[at + i]);
    if (length > png.size() - at - 12) break;
    const uLong sum =
        crc32(0, reinterpret_cast<const Bytef*>(png.data() + at + 4), static_cast<uInt>(length + 4));
    png.replace(at + 8 + length, 4, big32(static_cast<uint32_t>(sum)));
    at += length + 12;
  }
  return png;
}

std::string png(int width, int height, const std::string& samples, const PngForm& form,
                const std::string& ancillary) {
  std::string header = big32(static_cast<uint32_t>(width)) + big32(static_cast<uint32_t>(height));
  header += static_cast<char>(form.depth);
  header += static_cast<char>(form.colour_type);
  header += std::string(2, '\0') + static_cast<char>(form.interlaced);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + ancillary +
         png_chunk("IDAT", deflated(filtered_rows(width, height, samples, form))) + png_chunk("IEND", "");
}

std::string png(const Pixels& pixels) {
  return png(pixels.width, pixels.height, {reinterpret_cast<const char*>(pixels.rgb.get()), pixels.bytes()});
}

std::string webp(const Pixels& pixels, WebpForm form) {
  uint8_t* data = nullptr;
  const auto stride = static_cast<int>(pixels.stride());
  const size_t size =
      form == WebpForm::kLossless
          ? WebPEncodeLosslessRGB(pixels.rgb.get(), pixels.width, pixels.height, stride, &data)
          : WebPEncodeRGB(pixels.rgb.get(), pixels.width, pixels.height, stride, 85, &data);
  return taken(data, size);
}

std::string webp_rgba(int width, int height, const std::string& rgba) {
  uint8_t* data = nullptr;
  const size_t size =
      WebPEncodeLosslessRGBA(reinterpret_cast<const uint8_t*>(rgba.data()), width, height, 4 * width, &data);
  return taken(data, size);
}

std::string riff(const std::vector<std::pair<std::string, std::string>>& chunks) {
  std::string body = "WEBP";
  for (const auto& [name, content] : chunks) {
    body += name + little32(static_cast<uint32_t>(content.size())) + content;
    if (content.size() % 2 != 0) body += '\0';
  }
  return "RIFF" + little32(static_cast<uint32_t>(body.size())) + body;
}

std::pair<std::string, std::string> webp_chunk(const std::string& file) {
  uint32_t size = 0;
  std::memcpy(&size, file.data() + 16, 4);
  return {file.substr(12, 4), file.substr(20, size)};
}

std::string gif(int width, int height, const std::string& indices, const GifForm& form) {
  std::string file;
  int error = 0;
  GifFileType* out = EGifOpen(&file, append, &error);
  EGifSetGifVersion(out, true);
  ColorMapObject* colours = GifMakeMapObject(16, nullptr);
  for (int i = 0; i < 16; ++i) colours->Colors[i] = {to_byte(16 * i), to_byte(255 - 16 * i), to_byte(8 * i)};
  const int canvas_width = form.canvas_width > 0 ? form.canvas_width : width;
  const int canvas_height = form.canvas_height > 0 ? form.canvas_height : height;
  SLIP_CHECK(EGifPutScreenDesc(out, canvas_width, canvas_height, 8, 0, colours) == GIF_OK);
  for (int frame = 0; frame < form.frames; ++frame) put_frame(out, width, height, indices, form);
  EGifCloseFile(out, &error);
  GifFreeMapObject(colours);
  return file;
}

std::string exif(int orientation, bool big_endian, bool prefix) {
  const auto u16 = [&](uint32_t value) { return big_endian ? big16(value) : little16(value); };
  const auto u32 = [&](uint32_t value) { return big_endian ? big32(value) : little32(value); };
  return std::string(prefix ? "Exif\0\0" : "", prefix ? 6 : 0) + (big_endian ? "MM" : "II") + u16(42) +
         u32(8) + u16(1) + u16(0x0112) + u16(3) + u32(1) + u16(static_cast<uint32_t>(orientation)) + u16(0) +
         u32(0);
}

std::string big16(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}
std::string big32(uint32_t value) {
  return big16(value >> 16) + big16(value);
}
std::string little16(uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8)};
}
std::string little32(uint32_t value) {
  return little16(value) + little16(value >> 16);
}

std::string patched(std::string file, size_t at, const std::string& with) {
  SLIP_CHECK(at + with.size() <= file.size());
  return file.replace(at, with.size(), with);
}

}  // namespace slip::media::test
