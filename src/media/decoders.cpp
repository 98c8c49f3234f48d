#include "media/decoders.h"

#include <algorithm>

#include "media/orientation.h"

namespace slip::media {
namespace {

Decoded decode_kind(Kind kind, Bytes bytes, const Limits& limits) {
  switch (kind) {
    case Kind::kJpeg: return decode_jpeg(bytes, limits);
    case Kind::kPng: return decode_png(bytes, limits);
    case Kind::kWebp: return decode_webp(bytes, limits);
    case Kind::kGif: return decode_gif(bytes, limits);
    case Kind::kUnknown: refuse(Fault::kUnknownKind, kind);
    default: refuse(Fault::kUnsupportedKind, kind);
  }
}

}  // namespace

void refuse(Fault fault, Kind kind, int width, int height) {
  // The worker's caller knows the file's name; here it has none.
  throw Refused({.fault = fault, .kind = kind, .width = width, .height = height}, "the picture");
}

void check_size(Kind kind, int64_t width, int64_t height, const Limits& limits) {
  constexpr int64_t kMost = INT32_MAX;
  const auto w = static_cast<int>(std::clamp<int64_t>(width, 0, kMost));
  const auto h = static_cast<int>(std::clamp<int64_t>(height, 0, kMost));
  if (w == 0 || h == 0) refuse(Fault::kDamaged, kind, w, h);
  if (w > limits.side || h > limits.side) refuse(Fault::kSideTooLong, kind, w, h);
  if (static_cast<uint64_t>(w) * static_cast<uint64_t>(h) > limits.pixels) {
    refuse(Fault::kTooManyPixels, kind, w, h);
  }
}

Decoded decode_picture(Bytes bytes, const Limits& limits) {
  if (bytes.empty()) refuse(Fault::kEmpty, Kind::kUnknown);
  if (bytes.size() > limits.bytes) refuse(Fault::kTooManyBytes, sniff(bytes));
  Decoded decoded = decode_kind(sniff(bytes), bytes, limits);
  decoded.pixels = upright(std::move(decoded.pixels), decoded.orientation);
  return decoded;
}

}  // namespace slip::media
