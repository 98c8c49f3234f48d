// PNG by libpng. Text, colour profiles and other side data are skipped unread, so that only the picture
// itself can cost memory. Errors jump (see jpeg.cpp): functions that call setjmp hold no object with a
// destructor.
#include <png.h>

#include <cstring>

#include "media/blend.h"
#include "media/decoders.h"
#include "media/orientation.h"

namespace slip::media {
namespace {

constexpr png_alloc_size_t kMostChunkBytes = png_alloc_size_t{4} << 20;
constexpr png_uint_32 kMostChunks = 64;  // that the library keeps

class Reader {
 public:
  explicit Reader(Bytes bytes);
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Each returns false after a fault, which fault() then names.
  bool read_header();
  bool start();
  bool read_row(png_byte* row);
  bool finish();

  Fault fault() const { return ran_out_ ? Fault::kCutOff : fault_; }
  int64_t width() const { return png_get_image_width(png_, info_); }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }
  int passes() const { return passes_; }
  bool animated() const { return animated_; }
  int orientation();

 private:
  static void on_error(png_struct* png, png_const_charp message);
  static void on_warning(png_struct*, png_const_charp) {}
  static void on_read(png_struct* png, png_byte* to, size_t count);
  static int on_chunk(png_struct* png, png_unknown_chunk* chunk);

  Bytes bytes_;
  size_t at_ = 0;
  png_struct* png_ = nullptr;
  png_info* info_ = nullptr;
  int passes_ = 1;
  Fault fault_ = Fault::kDamaged;
  bool ran_out_ = false;
  bool animated_ = false;
};

Reader::Reader(Bytes bytes) : bytes_(bytes) {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ != nullptr) return;
  png_destroy_read_struct(&png_, nullptr, nullptr);
  throw std::bad_alloc();
}

void Reader::on_error(png_struct* png, png_const_charp message) {
  auto& reader = *static_cast<Reader*>(png_get_error_ptr(png));
  // The library has no codes, only sentences.
  if (std::strstr(message, "emory") != nullptr) reader.fault_ = Fault::kNoMemory;
  png_longjmp(png, 1);
}

void Reader::on_read(png_struct* png, png_byte* to, size_t count) {
  auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  if (reader.bytes_.size() - reader.at_ < count) {
    reader.ran_out_ = true;
    png_error(png, "end of file");
  }
  std::memcpy(to, reader.bytes_.data() + reader.at_, count);
  reader.at_ += count;
}

/// Sees the chunks that the library does not know, which are skipped unless they are critical (a capital
/// first). An animation names itself by one; its first picture is the one that every reader shows.
int Reader::on_chunk(png_struct* png, png_unknown_chunk* chunk) {
  auto& reader = *static_cast<Reader*>(png_get_user_chunk_ptr(png));
  if (std::memcmp(chunk->name, "acTL", 4) == 0) reader.animated_ = true;
  constexpr int kError = -1;
  constexpr int kHandled = 1;
  return (chunk->name[0] & 0x20) == 0 ? kError : kHandled;
}

bool Reader::read_header() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_read_fn(png_, this, on_read);
  png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() has a sentence for it
  png_set_chunk_malloc_max(png_, kMostChunkBytes);
  png_set_chunk_cache_max(png_, kMostChunks);
  const auto* skipped = reinterpret_cast<const png_byte*>("iCCP\0tEXt\0zTXt\0iTXt\0sPLT\0hIST\0pCAL\0sCAL");
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, skipped, 8);
  png_set_read_user_chunk_fn(png_, this, on_chunk);
  png_read_info(png_, info_);
  return true;
}

/// Whatever is stored comes out as 8-bit RGB or RGBA.
bool Reader::start() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_expand(png_);  // palettes, 1 to 4 bits, and a transparent colour
  png_set_strip_16(png_);
  png_set_gray_to_rgb(png_);
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  return true;
}

bool Reader::read_row(png_byte* row) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_read_row(png_, row, nullptr);
  return true;
}

/// Reads what follows the pixels, down to the end chunk.
bool Reader::finish() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_read_end(png_, info_);
  return true;
}

int Reader::orientation() {
  png_byte* exif = nullptr;
  png_uint_32 count = 0;
  if (setjmp(png_jmpbuf(png_)) != 0) return 1;
  if (png_get_eXIf_1(png_, info_, &count, &exif) == 0 || exif == nullptr) return 1;
  return orientation_of({reinterpret_cast<const std::byte*>(exif), count});
}

/// The rows as they are stored: interlaced ones come several times, each time with more of their pixels.
bool read_rows(Reader& reader, uint8_t* pixels, size_t stride, int height) {
  for (int pass = 0; pass < reader.passes(); ++pass) {
    for (int y = 0; y < height; ++y) {
      if (!reader.read_row(pixels + stride * static_cast<size_t>(y))) return false;
    }
  }
  return reader.finish();
}

/// Row by row, so that an image with alpha takes no second copy.
bool read_rows_over_white(Reader& reader, Pixels& pixels, bool& transparent) {
  const auto row = std::make_unique<uint8_t[]>(4 * static_cast<size_t>(pixels.width));
  for (int y = 0; y < pixels.height; ++y) {
    if (!reader.read_row(row.get())) return false;
    transparent |= rgba_over_white(row.get(), pixels.row(y), static_cast<size_t>(pixels.width));
  }
  return reader.finish();
}

bool read_interlaced_over_white(Reader& reader, Pixels& pixels, bool& transparent) {
  const auto width = static_cast<size_t>(pixels.width);
  const size_t count = width * static_cast<size_t>(pixels.height);
  const auto rgba = std::make_unique<uint8_t[]>(4 * count);
  if (!read_rows(reader, rgba.get(), 4 * width, pixels.height)) return false;
  transparent = rgba_over_white(rgba.get(), pixels.rgb.get(), count);
  return true;
}

bool read_pixels(Reader& reader, Decoded& out) {
  if (!reader.start()) return false;
  Pixels& pixels = out.pixels;
  pixels = Pixels(static_cast<int>(reader.width()), static_cast<int>(reader.height()));
  if (reader.channels() == 3) return read_rows(reader, pixels.rgb.get(), pixels.stride(), pixels.height);
  if (reader.channels() != 4) return false;
  if (reader.passes() == 1) return read_rows_over_white(reader, pixels, out.transparent);
  return read_interlaced_over_white(reader, pixels, out.transparent);
}

}  // namespace

Decoded decode_png(Bytes bytes, const Limits& limits) {
  Reader reader(bytes);
  if (!reader.read_header()) refuse(reader.fault(), Kind::kPng);
  check_size(Kind::kPng, reader.width(), reader.height(), limits);
  Decoded out;
  if (!read_pixels(reader, out)) {
    refuse(reader.fault(), Kind::kPng, static_cast<int>(reader.width()), static_cast<int>(reader.height()));
  }
  out.orientation = reader.orientation();
  out.animated = reader.animated();
  return out;
}

}  // namespace slip::media
