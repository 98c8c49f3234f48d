// Kind: what a file is, told by its first bytes. Names and MIME types are never believed: a PNG called
// photo.jpg is read as PNG, and an HTML error page called photo.jpg is refused as HTML.
//
// A polyglot is what its first bytes say. Kinds that are not read have their own names, so that a refusal can
// say what was sent. Cost: looks at the first kilobyte at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace slip::media {

using Bytes = std::span<const std::byte>;

enum class Kind : uint32_t {
  kUnknown,
  // These are read.
  kJpeg,
  kPng,
  kWebp,
  kGif,
  // These are refused by name.
  kBmp,
  kTiff,
  kHeic,
  kAvif,
  kJpeg2000,
  kJpegXl,
  kIcon,
  kPhotoshop,
  kSvg,
  kPdf,
  kVideo,
  kAudio,
  kPlaylist,
  kArchive,
  kHtml,
  kCount,  // one past the last
};

Kind sniff(Bytes bytes);

/// "JPEG", "HEIC", "a PDF document": as it stands in "photo.heic: is HEIC, ...".
std::string_view name_of(Kind kind);

constexpr bool is_read(Kind kind) {
  return kind >= Kind::kJpeg && kind <= Kind::kGif;
}

}  // namespace slip::media
