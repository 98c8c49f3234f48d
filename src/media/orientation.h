// EXIF orientation: cameras store the picture as the sensor lay and note how it is to be turned. We turn it,
// since that is what a person sees. Orientations are numbered as in EXIF: 1 is upright, 2 to 8 are the other
// ways to mirror and turn.
//
// The block is untrusted: what cannot be read is taken as 1. Cost of turning: one copy of the image.
#pragma once

#include "media/kind.h"
#include "media/pixels.h"

namespace slip::media {

/// `exif` is the TIFF part of an EXIF block, with or without "Exif\0\0" in front. Returns 1 to 8.
int orientation_of(Bytes exif);

/// The image as a person sees it.
Pixels upright(Pixels pixels, int orientation);

}  // namespace slip::media
