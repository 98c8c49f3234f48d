// JPEG by libjpeg-turbo, with its default inverse transform and upsampling: the ones that Pillow and
// torchvision use. The library reports errors by a callback that must not return, hence setjmp. Functions
// that call setjmp hold no object with a destructor; everything they need lives in Reader.
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it first

#include <jpeglib.h>

#include <jerror.h>

#include "media/blend.h"
#include "media/decoders.h"
#include "media/orientation.h"

namespace slip::media {
namespace {

constexpr JOCTET kEndOfImage[2] = {0xFF, JPEG_EOI};

class Reader {
 public:
  Reader(Bytes bytes, const Limits& limits);
  ~Reader() { jpeg_destroy_decompress(&info_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Each returns false after a fault, which fault() then names.
  bool read_header();
  bool start();
  bool read_row(JSAMPLE* row);
  bool finish();

  Fault fault() const { return fault_; }
  int width() const { return static_cast<int>(info_.image_width); }
  int height() const { return static_cast<int>(info_.image_height); }
  int components() const { return info_.output_components; }
  int orientation() const;

 private:
  static void on_error(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  static void on_progress(j_common_ptr info);
  static boolean on_empty(j_decompress_ptr info);
  static void on_skip(j_decompress_ptr info, long count);
  static Reader& of(j_common_ptr info) { return *static_cast<Reader*>(info->client_data); }

  bool choose_colours();

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf escape_{};
  int most_scans_;
  Fault fault_ = Fault::kDamaged;
  bool ran_out_ = false;         // the bytes ended and an end marker was put in their place
  bool lacked_samples_ = false;  // a scan ended before its samples did
};

Reader::Reader(Bytes bytes, const Limits& limits) : most_scans_(limits.scans) {
  info_.err = jpeg_std_error(&errors_);
  errors_.error_exit = on_error;
  errors_.emit_message = on_message;
  errors_.output_message = [](j_common_ptr) {};
  info_.client_data = this;
  if (setjmp(escape_) != 0) throw std::bad_alloc();  // nothing but memory can fail here
  jpeg_create_decompress(&info_);
  info_.client_data = this;
  source_.init_source = [](j_decompress_ptr) {};
  source_.term_source = [](j_decompress_ptr) {};
  source_.fill_input_buffer = on_empty;
  source_.skip_input_data = on_skip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  source_.bytes_in_buffer = bytes.size();
  info_.src = &source_;
  progress_.progress_monitor = on_progress;
  info_.progress = &progress_;
}

void Reader::on_error(j_common_ptr info) {
  Reader& reader = of(info);
  switch (info->err->msg_code) {
    case JERR_OUT_OF_MEMORY: reader.fault_ = Fault::kNoMemory; break;
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL: reader.fault_ = Fault::kUnsupportedForm; break;
    default:
      // kTooManyScans was set before the jump; whatever else goes wrong behind the end comes from the end.
      if (reader.fault_ == Fault::kDamaged && reader.ran_out_) reader.fault_ = Fault::kCutOff;
  }
  std::longjmp(reader.escape_, 1);
}

/// Negative levels are warnings: the data is bad and the library carries on. Cameras and programs write such
/// files and everything shows them. But where a scan has ended and samples are still due, the picture is not
/// all there; a restart marker only says that some were lost on the way.
void Reader::on_message(j_common_ptr info, int level) {
  Reader& reader = of(info);
  if (level >= 0 || info->err->msg_code != JWRN_HIT_MARKER) return;
  const int marker = reader.info_.unread_marker;
  if (marker < JPEG_RST0 || marker > JPEG_RST0 + 7) reader.lacked_samples_ = true;
}

void Reader::on_progress(j_common_ptr info) {
  Reader& reader = of(info);
  if (reader.info_.input_scan_number <= reader.most_scans_) return;
  reader.fault_ = Fault::kTooManyScans;
  std::longjmp(reader.escape_, 1);
}

boolean Reader::on_empty(j_decompress_ptr info) {
  Reader& reader = of(reinterpret_cast<j_common_ptr>(info));
  reader.ran_out_ = true;
  reader.source_.next_input_byte = kEndOfImage;
  reader.source_.bytes_in_buffer = sizeof kEndOfImage;
  return TRUE;
}

void Reader::on_skip(j_decompress_ptr info, long count) {
  jpeg_source_mgr& source = *info->src;
  if (count <= 0) return;
  if (static_cast<size_t>(count) > source.bytes_in_buffer) {
    on_empty(info);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<size_t>(count);
}

bool Reader::read_header() {
  if (setjmp(escape_) != 0) return false;
  jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(&info_, TRUE);
  if (choose_colours()) return true;
  fault_ = Fault::kUnsupportedForm;
  return false;
}

bool Reader::choose_colours() {
  switch (info_.jpeg_color_space) {
    case JCS_GRAYSCALE: info_.out_color_space = JCS_GRAYSCALE; return true;
    case JCS_RGB:
    case JCS_YCbCr: info_.out_color_space = JCS_RGB; return true;
    case JCS_CMYK:
    case JCS_YCCK: info_.out_color_space = JCS_CMYK; return true;
    default: return false;
  }
}

bool Reader::start() {
  if (setjmp(escape_) != 0) return false;
  jpeg_start_decompress(&info_);
  return true;
}

bool Reader::read_row(JSAMPLE* row) {
  if (setjmp(escape_) != 0) return false;
  jpeg_read_scanlines(&info_, &row, 1);
  return true;
}

/// A file of one scan may lack its end marker, as some cameras leave it out. Of several scans nobody can tell
/// how many were to come.
bool Reader::finish() {
  if (!lacked_samples_ && !(ran_out_ && info_.input_scan_number > 1)) return true;
  fault_ = Fault::kCutOff;
  return false;
}

int Reader::orientation() const {
  for (const jpeg_marker_struct* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
    const Bytes data(reinterpret_cast<const std::byte*>(marker->data), marker->data_length);
    if (data.size() < 6 || data[0] != std::byte{'E'} || data[1] != std::byte{'x'}) continue;
    return orientation_of(data);
  }
  return 1;
}

/// CMYK as Adobe's programs store it, inverted. A black of 255 - k is what remains of each ink's light.
void cmyk_to_rgb(const uint8_t* cmyk, uint8_t* rgb, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t light = cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      rgb[3 * i + c] = static_cast<uint8_t>(light - times_255(255u - cmyk[4 * i + c], light));
    }
  }
}

bool read_rows(Reader& reader, Pixels& pixels) {
  const auto width = static_cast<size_t>(pixels.width);
  const auto samples = std::make_unique<JSAMPLE[]>(width * static_cast<size_t>(reader.components()));
  for (int y = 0; y < pixels.height; ++y) {
    uint8_t* row = pixels.row(y);
    if (!reader.read_row(reader.components() == 3 ? row : samples.get())) return false;
    if (reader.components() == 1) grey_to_rgb(samples.get(), row, width);
    if (reader.components() == 4) cmyk_to_rgb(samples.get(), row, width);
  }
  return reader.finish();
}

}  // namespace

Decoded decode_jpeg(Bytes bytes, const Limits& limits) {
  Reader reader(bytes, limits);
  if (!reader.read_header()) refuse(reader.fault(), Kind::kJpeg, reader.width(), reader.height());
  check_size(Kind::kJpeg, reader.width(), reader.height(), limits);
  Decoded out;
  out.orientation = reader.orientation();
  bool whole = reader.start();
  if (whole) {
    out.pixels = Pixels(reader.width(), reader.height());
    whole = read_rows(reader, out.pixels);
  }
  if (!whole) refuse(reader.fault(), Kind::kJpeg, reader.width(), reader.height());
  return out;
}

}  // namespace slip::media
