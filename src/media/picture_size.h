// picture_size(): width and height as a file's header states them, read without a decoder, so that admission
// can count a picture before it is decoded. It reads single bytes within bounds and nothing else, and may
// therefore run in the parent.
//
// The header may lie, and EXIF may exchange the two sides. The number of soft tokens is the same either way;
// only what the decoder returns is certain.
#pragma once

#include <cstdint>
#include <optional>

#include "media/kind.h"

namespace slip::media {

struct PictureSize {
  int64_t width = 0;
  int64_t height = 0;
  bool operator==(const PictureSize&) const = default;
};

/// Both sides positive, or nothing when the file is of another kind, cut off, or does not say.
std::optional<PictureSize> picture_size(Bytes bytes);

}  // namespace slip::media
