#include "media/kind.h"

#include <algorithm>
#include <array>
#include <string>

namespace slip::media {
namespace {

using std::literals::operator""sv;

struct Mark {
  size_t offset;
  std::string_view bytes;
  Kind kind;
};

constexpr std::array kMarks{
    Mark{0, "\xff\xd8\xff"sv, Kind::kJpeg},
    Mark{0, "\x89PNG\r\n\x1a\n"sv, Kind::kPng},
    Mark{0, "GIF87a"sv, Kind::kGif},
    Mark{0, "GIF89a"sv, Kind::kGif},
    Mark{0, "II*\0"sv, Kind::kTiff},
    Mark{0, "MM\0*"sv, Kind::kTiff},
    Mark{0, "II+\0"sv, Kind::kTiff},
    Mark{0, "MM\0+"sv, Kind::kTiff},
    Mark{0, "\0\0\0\x0cjP  \r\n\x87\n"sv, Kind::kJpeg2000},
    Mark{0, "\xff\x4f\xff\x51"sv, Kind::kJpeg2000},
    Mark{0, "\0\0\0\x0cJXL \r\n\x87\n"sv, Kind::kJpegXl},
    Mark{0, "\xff\x0a"sv, Kind::kJpegXl},
    Mark{0, "\0\0\1\0"sv, Kind::kIcon},
    Mark{0, "\0\0\2\0"sv, Kind::kIcon},
    Mark{0, "8BPS"sv, Kind::kPhotoshop},
    Mark{0, "%PDF-"sv, Kind::kPdf},
    Mark{0, "\x1a\x45\xdf\xa3"sv, Kind::kVideo},  // Matroska, WebM
    Mark{0, "FLV\1"sv, Kind::kVideo},
    Mark{0, "\0\0\1\xba"sv, Kind::kVideo},
    Mark{0, "\0\0\1\xb3"sv, Kind::kVideo},
    Mark{0, "ID3"sv, Kind::kAudio},
    Mark{0, "\xff\xfb"sv, Kind::kAudio},
    Mark{0, "\xff\xf3"sv, Kind::kAudio},
    Mark{0, "\xff\xf1"sv, Kind::kAudio},
    Mark{0, "fLaC"sv, Kind::kAudio},
    Mark{0, "OggS"sv, Kind::kAudio},
    Mark{0, "#EXTM3U"sv, Kind::kPlaylist},
    Mark{0, "ffconcat"sv, Kind::kPlaylist},
    Mark{0, "PK\3\4"sv, Kind::kArchive},
    Mark{0, "PK\5\6"sv, Kind::kArchive},
    Mark{0, "\x1f\x8b"sv, Kind::kArchive},
    Mark{0, "BZh"sv, Kind::kArchive},
    Mark{0,
         "\xfd"
         "7zXZ\0"sv,
         Kind::kArchive},
    Mark{0, "7z\xbc\xaf\x27\x1c"sv, Kind::kArchive},
    Mark{0, "\x28\xb5\x2f\xfd"sv, Kind::kArchive},
    Mark{0, "Rar!\x1a\7"sv, Kind::kArchive},
    Mark{257, "ustar"sv, Kind::kArchive},
};

std::string_view as_text(Bytes bytes, size_t most) {
  return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), most)};
}

bool has(std::string_view text, size_t offset, std::string_view mark) {
  return text.size() >= offset && text.substr(offset).starts_with(mark);
}

/// RIFF holds pictures, films and sound; the word behind the length tells them apart.
Kind riff_kind(std::string_view head) {
  if (has(head, 8, "WEBP")) return Kind::kWebp;
  if (has(head, 8, "WAVE")) return Kind::kAudio;
  if (has(head, 8, "AVI ")) return Kind::kVideo;
  return Kind::kUnknown;
}

/// ISO base media files begin with a box `ftyp` that names the brand.
Kind brand_kind(std::string_view head) {
  const std::string_view brand = head.substr(8, 4);
  for (const std::string_view heic : {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"}) {
    if (brand != heic) continue;
    // AVIF files may call themselves mif1 first; their own brand then follows in the list.
    return head.substr(0, 64).find("avif") == std::string_view::npos ? Kind::kHeic : Kind::kAvif;
  }
  if (brand == "avif" || brand == "avis") return Kind::kAvif;
  if (brand == "M4A " || brand == "M4B ") return Kind::kAudio;
  return Kind::kVideo;
}

/// Markup has no magic bytes: a byte order mark and white space may come first, and SVG may follow an XML
/// declaration and comments.
Kind markup_kind(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || head[start] != '<') return Kind::kUnknown;
  std::string lower(head.substr(start));
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (lower.find("<svg") != std::string::npos) return Kind::kSvg;
  if (lower.starts_with("<!doctype html") || lower.find("<html") != std::string::npos) return Kind::kHtml;
  return Kind::kUnknown;
}

}  // namespace

Kind sniff(Bytes bytes) {
  const std::string_view head = as_text(bytes, 1024);
  for (const Mark& mark : kMarks) {
    if (has(head, mark.offset, mark.bytes)) return mark.kind;
  }
  if (has(head, 0, "RIFF")) return riff_kind(head);
  if (has(head, 4, "ftyp") && head.size() >= 12) return brand_kind(head);
  if (has(head, 0, "BM") && head.size() >= 14 && has(head, 6, "\0\0\0\0"sv)) return Kind::kBmp;
  return markup_kind(head);
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kJpeg: return "JPEG";
    case Kind::kPng: return "PNG";
    case Kind::kWebp: return "WebP";
    case Kind::kGif: return "GIF";
    case Kind::kBmp: return "BMP";
    case Kind::kTiff: return "TIFF";
    case Kind::kHeic: return "HEIC";
    case Kind::kAvif: return "AVIF";
    case Kind::kJpeg2000: return "JPEG 2000";
    case Kind::kJpegXl: return "JPEG XL";
    case Kind::kIcon: return "an icon (ICO)";
    case Kind::kPhotoshop: return "a Photoshop file (PSD)";
    case Kind::kSvg: return "SVG";
    case Kind::kPdf: return "a PDF document";
    case Kind::kVideo: return "a video";
    case Kind::kAudio: return "a sound file";
    case Kind::kPlaylist: return "a playlist";
    case Kind::kArchive: return "an archive";
    case Kind::kHtml: return "an HTML page";
    case Kind::kUnknown:
    case Kind::kCount: break;
  }
  return "of an unknown kind";
}

}  // namespace slip::media
