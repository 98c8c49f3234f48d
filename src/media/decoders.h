// Decoders: from the bytes of one picture to its pixels, one per kind, each on the field's own library.
//
// They run in the worker's sandbox, and in process only in fuzz targets and tests. Rules they share:
// - Sizes are checked against the limits from the header, before memory is taken.
// - Transparency is composited on white; 16-bit samples keep their high byte; colour profiles are ignored.
// - Of an animation the first frame is read.
// - A file that ends before its picture does is refused.
// Every fault is thrown as Refused; std::bad_alloc may come out too.
#pragma once

#include "media/limits.h"
#include "media/pixels.h"
#include "media/refused.h"

namespace slip::media {

struct Decoded {
  Pixels pixels;             // as stored; orientation says how they are to be turned
  int orientation = 1;       // as in EXIF
  bool animated = false;     // there were more frames
  bool transparent = false;  // white shines through somewhere
};

Decoded decode_jpeg(Bytes bytes, const Limits& limits);
Decoded decode_png(Bytes bytes, const Limits& limits);
Decoded decode_webp(Bytes bytes, const Limits& limits);
Decoded decode_gif(Bytes bytes, const Limits& limits);

/// Sniffs the kind, decodes, and turns the picture upright.
Decoded decode_picture(Bytes bytes, const Limits& limits);

/// Throws Refused unless both sides are positive and within the limits.
void check_size(Kind kind, int64_t width, int64_t height, const Limits& limits);

[[noreturn]] void refuse(Fault fault, Kind kind, int width = 0, int height = 0);

}  // namespace slip::media
