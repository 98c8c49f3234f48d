// GIF by giflib: the first frame, drawn on a white canvas of the file's own size. Frames behind it are only
// looked for, never decoded.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "media/decoders.h"

namespace slip::media {
namespace {

constexpr int kNoColour = -1;

struct Source {
  Bytes bytes;
  size_t at = 0;
  bool ran_out = false;
};

int on_read(GifFileType* gif, GifByteType* to, int count) {
  auto& source = *static_cast<Source*>(gif->UserData);
  const size_t most = std::min(source.bytes.size() - source.at, static_cast<size_t>(count));
  source.ran_out |= most < static_cast<size_t>(count);
  std::memcpy(to, source.bytes.data() + source.at, most);
  source.at += most;
  return static_cast<int>(most);
}

void close(GifFileType* gif) {
  int error = 0;
  DGifCloseFile(gif, &error);
}

class Reader {
 public:
  Reader(Bytes bytes, const Limits& limits) : source_{bytes}, limits_(limits) {
    int error = 0;
    gif_.reset(DGifOpen(&source_, on_read, &error));
    if (gif_ == nullptr) fail();
  }

  Decoded read() {
    check_size(Kind::kGif, std::max(gif_->SWidth, 1), std::max(gif_->SHeight, 1), limits_);
    find_frame();
    draw_frame();
    out_.animated = another_frame();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail() const { refuse(source_.ran_out ? Fault::kCutOff : Fault::kDamaged, Kind::kGif); }
  void must(int result) const {
    if (result != GIF_OK) fail();
  }

  /// Walks to the first frame and past its header; extensions before it may name a transparent colour.
  void find_frame() {
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      must(DGifGetRecordType(gif_.get(), &type));
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type != EXTENSION_RECORD_TYPE) fail();
      read_extension();
    }
    must(DGifGetImageDesc(gif_.get()));
  }

  void read_extension() {
    int code = 0;
    GifByteType* block = nullptr;
    must(DGifGetExtension(gif_.get(), &code, &block));
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
      transparent_ = control.TransparentColor;
    }
    while (block != nullptr) must(DGifGetExtensionNext(gif_.get(), &block));
  }

  /// Some programs leave the canvas size 0 and mean the frame's.
  void make_canvas(const GifImageDesc& frame) {
    const int width = gif_->SWidth > 0 ? gif_->SWidth : frame.Left + frame.Width;
    const int height = gif_->SHeight > 0 ? gif_->SHeight : frame.Top + frame.Height;
    check_size(Kind::kGif, frame.Width, frame.Height, limits_);
    check_size(Kind::kGif, width, height, limits_);
    out_.pixels = Pixels(width, height);
    std::memset(out_.pixels.rgb.get(), 255, out_.pixels.bytes());
    out_.transparent = frame.Left > 0 || frame.Top > 0 || frame.Left + frame.Width < width ||
                       frame.Top + frame.Height < height;
  }

  void draw_frame() {
    const GifImageDesc& frame = gif_->Image;
    make_canvas(frame);
    colours_ = frame.ColorMap != nullptr ? frame.ColorMap : gif_->SColorMap;
    if (colours_ == nullptr) fail();
    line_.resize(static_cast<size_t>(frame.Width));
    if (!frame.Interlace) {
      for (int y = 0; y < frame.Height; ++y) draw_line(frame, y);
      return;
    }
    constexpr int kFirst[] = {0, 4, 2, 1};
    constexpr int kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < 4; ++pass) {
      for (int y = kFirst[pass]; y < frame.Height; y += kStep[pass]) draw_line(frame, y);
    }
  }

  /// Frames may hang over the edge of the canvas; what does is read and not shown.
  void draw_line(const GifImageDesc& frame, int y) {
    must(DGifGetLine(gif_.get(), line_.data(), frame.Width));
    if (frame.Top + y >= out_.pixels.height) return;
    uint8_t* row = out_.pixels.row(frame.Top + y);
    const int visible = std::min(frame.Width, out_.pixels.width - frame.Left);
    for (int x = 0; x < visible; ++x) draw_pixel(line_[static_cast<size_t>(x)], row + 3 * (frame.Left + x));
  }

  void draw_pixel(int index, uint8_t* rgb) {
    if (index == transparent_) {
      out_.transparent = true;
      return;
    }
    // The library does not check that an index has a colour.
    const GifColorType black{};
    const GifColorType& colour = index < colours_->ColorCount ? colours_->Colors[index] : black;
    rgb[0] = colour.Red;
    rgb[1] = colour.Green;
    rgb[2] = colour.Blue;
  }

  /// Whether a frame follows. The first one is whole, so what is wrong behind it does not matter.
  bool another_frame() {
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      if (DGifGetRecordType(gif_.get(), &type) != GIF_OK) return false;
      if (type != EXTENSION_RECORD_TYPE) return type == IMAGE_DESC_RECORD_TYPE;
      int code = 0;
      GifByteType* block = nullptr;
      if (DGifGetExtension(gif_.get(), &code, &block) != GIF_OK) return false;
      while (block != nullptr) {
        if (DGifGetExtensionNext(gif_.get(), &block) != GIF_OK) return false;
      }
    }
  }

  Source source_;
  const Limits& limits_;
  std::unique_ptr<GifFileType, decltype([](GifFileType* gif) { close(gif); })> gif_;
  Decoded out_;
  const ColorMapObject* colours_ = nullptr;
  std::vector<GifPixelType> line_;
  int transparent_ = kNoColour;
};

}  // namespace

Decoded decode_gif(Bytes bytes, const Limits& limits) {
  return Reader(bytes, limits).read();
}

}  // namespace slip::media
