// MediaKey of a picture: the SHA-256 of its bytes and of everything else that its soft rows depend on. Always whole:
// engines that hashed the beginning of a file, or kept 16 bits of the hash, showed people each other's pictures.
#pragma once

#include <string_view>

#include "kv/page_key.h"
#include "media/kind.h"
#include "media/patches.h"

namespace slip::session {

struct PictureIdentity {
  std::string_view tower;  // which network sees it
  kv::Salt salt = {};      // who may share what was made of it
  int budget = 0;
  media::PatchSide side = media::PatchSide::kPatch;
};

kv::MediaKey media_key(media::Bytes bytes, const PictureIdentity& identity);

}  // namespace slip::session
