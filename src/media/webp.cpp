// WebP by libwebp. Its demultiplexer gives still pictures and animations alike as frames on a canvas; the
// first frame is drawn on white.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>

#include "media/blend.h"
#include "media/decoders.h"
#include "media/orientation.h"

namespace slip::media {
namespace {

using Demuxer =
    std::unique_ptr<WebPDemuxer, decltype([](WebPDemuxer* demuxer) { WebPDemuxDelete(demuxer); })>;

const uint8_t* octets(Bytes bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

/// The container says how long it is.
bool cut_off(Bytes bytes) {
  if (bytes.size() < 20) return true;
  uint64_t length = 0;
  for (size_t i = 0; i < 4; ++i) length |= static_cast<uint64_t>(bytes[4 + i]) << (8 * i);
  return length + 8 > bytes.size();
}

/// The canvas size from the first bytes, before the demultiplexer has walked the file.
void check_header(Bytes bytes, const Limits& limits) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(octets(bytes), bytes.size(), &features);
  if (status == VP8_STATUS_OK) check_size(Kind::kWebp, features.width, features.height, limits);
  if (cut_off(bytes)) refuse(Fault::kCutOff, Kind::kWebp);
  if (status != VP8_STATUS_OK) refuse(Fault::kDamaged, Kind::kWebp);
}

int stored_orientation(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0) {
    orientation = orientation_of({reinterpret_cast<const std::byte*>(chunk.chunk.bytes), chunk.chunk.size});
  }
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

/// Decodes a frame into `to`, which has room for it, with 3 or 4 samples a pixel.
void decode_frame(const WebPIterator& frame, WEBP_CSP_MODE mode, uint8_t* to, size_t stride) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) refuse(Fault::kDamaged, Kind::kWebp);
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = stride * static_cast<size_t>(frame.height);
  switch (WebPDecode(frame.fragment.bytes, frame.fragment.size, &config)) {
    case VP8_STATUS_OK: return;
    case VP8_STATUS_OUT_OF_MEMORY: refuse(Fault::kNoMemory, Kind::kWebp, frame.width, frame.height);
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: refuse(Fault::kCutOff, Kind::kWebp, frame.width, frame.height);
    default: refuse(Fault::kDamaged, Kind::kWebp, frame.width, frame.height);
  }
}

void draw_with_alpha(const WebPIterator& frame, Decoded& out) {
  const auto width = static_cast<size_t>(frame.width);
  const auto rgba = std::make_unique_for_overwrite<uint8_t[]>(4 * width * static_cast<size_t>(frame.height));
  decode_frame(frame, MODE_RGBA, rgba.get(), 4 * width);
  for (int y = 0; y < frame.height; ++y) {
    uint8_t* row = out.pixels.row(frame.y_offset + y) + 3 * frame.x_offset;
    out.transparent |= rgba_over_white(rgba.get() + 4 * width * static_cast<size_t>(y), row, width);
  }
}

void draw_opaque(const WebPIterator& frame, Decoded& out) {
  decode_frame(frame, MODE_RGB, out.pixels.row(frame.y_offset) + 3 * frame.x_offset, out.pixels.stride());
}

bool lies_on(const WebPIterator& frame, const Pixels& canvas) {
  return frame.width > 0 && frame.height > 0 && frame.x_offset >= 0 && frame.y_offset >= 0 &&
         frame.width <= canvas.width - frame.x_offset && frame.height <= canvas.height - frame.y_offset;
}

/// The frame's own header must agree with the container's, since the decoder writes what the former says.
bool size_agrees(const WebPIterator& frame) {
  int width = 0;
  int height = 0;
  return WebPGetInfo(frame.fragment.bytes, frame.fragment.size, &width, &height) != 0 &&
         width == frame.width && height == frame.height;
}

void draw_first_frame(const WebPDemuxer* demuxer, Decoded& out) {
  WebPIterator frame;
  std::memset(&frame, 0, sizeof frame);
  const bool found = WebPDemuxGetFrame(demuxer, 1, &frame) != 0;
  const std::unique_ptr<WebPIterator, decltype([](WebPIterator* it) { WebPDemuxReleaseIterator(it); })> owner(
      &frame);
  if (!found || !lies_on(frame, out.pixels) || !size_agrees(frame)) refuse(Fault::kDamaged, Kind::kWebp);
  const bool covers = frame.width == out.pixels.width && frame.height == out.pixels.height;
  if (!covers) {
    std::memset(out.pixels.rgb.get(), 255, out.pixels.bytes());
    out.transparent = true;
  }
  if (frame.has_alpha != 0) {
    draw_with_alpha(frame, out);
  } else {
    draw_opaque(frame, out);
  }
}

}  // namespace

Decoded decode_webp(Bytes bytes, const Limits& limits) {
  check_header(bytes, limits);
  const WebPData data{octets(bytes), bytes.size()};
  const Demuxer demuxer(WebPDemux(&data));
  if (demuxer == nullptr) refuse(Fault::kDamaged, Kind::kWebp);
  const auto width = static_cast<int64_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH));
  const auto height = static_cast<int64_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT));
  check_size(Kind::kWebp, width, height, limits);
  Decoded out;
  out.pixels = Pixels(static_cast<int>(width), static_cast<int>(height));
  out.animated = WebPDemuxGetI(demuxer.get(), WEBP_FF_FRAME_COUNT) > 1;
  out.orientation = stored_orientation(demuxer.get());
  draw_first_frame(demuxer.get(), out);
  return out;
}

}  // namespace slip::media
