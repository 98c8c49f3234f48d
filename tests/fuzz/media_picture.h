// What the fuzz targets of pictures have in common: one decoder in process, with small limits so that inputs
// are many, and the promises that its callers rely on.
#pragma once

#include "fuzz/target.h"
#include "media/decoders.h"
#include "media/picture_size.h"

namespace slip::media {

inline constexpr Limits kFuzzLimits{.bytes = 1 << 20, .pixels = 1 << 16, .side = 2048, .scans = 16};

using DecodeFunction = Decoded (*)(Bytes bytes, const Limits& limits);

/// Only Refused may come out.
inline void fuzz_picture(DecodeFunction decode, const std::string& file) {
  const Bytes bytes = std::as_bytes(std::span(file));
  const auto stated = picture_size(bytes);
  fuzz_check(!stated || (stated->width > 0 && stated->height > 0));
  try {
    Decoded image = decode(bytes, kFuzzLimits);
    fuzz_check(image.pixels.width > 0 && image.pixels.width <= kFuzzLimits.side);
    fuzz_check(image.pixels.height > 0 && image.pixels.height <= kFuzzLimits.side);
    fuzz_check(image.pixels.bytes() <= 3 * kFuzzLimits.pixels);
    fuzz_check(image.orientation >= 1 && image.orientation <= 8);
    // Reads every byte, so that one that was never written is noticed where the tool can.
    uint64_t sum = 0;
    for (size_t i = 0; i < image.pixels.bytes(); ++i) sum += image.pixels.rgb[i];
    fuzz_check(sum <= 255 * image.pixels.bytes());
  } catch (const Refused& refused) {
    fuzz_check(refused.fault() > Fault::kNone && refused.fault() < Fault::kCount);
  }
}

}  // namespace slip::media
