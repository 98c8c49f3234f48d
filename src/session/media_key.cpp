#include "session/media_key.h"

#include <fmt/format.h>

#include <span>
#include <string>

#include "base/check.h"
#include "hub/digest.h"

namespace slip::session {
namespace {

// Changes when decoding, resizing or the order of patches do.
constexpr int kVersion = 1;

std::byte nibble(char c) {
  return static_cast<std::byte>(c <= '9' ? c - '0' : c - 'a' + 10);
}

}  // namespace

kv::MediaKey media_key(media::Bytes bytes, const PictureIdentity& identity) {
  const std::string options = fmt::format(
      "picture {} {:016x} {:016x} {} {} {} {}:{}\n", kVersion, identity.salt.high, identity.salt.low,
      identity.budget, static_cast<int>(identity.side), bytes.size(), identity.tower.size(), identity.tower);
  hub::Digest digest(hub::Digest::Kind::kSha256, options.size() + bytes.size());
  digest.add(std::as_bytes(std::span(options)));
  digest.add(bytes);
  const std::string hex = digest.finish();
  kv::MediaKey key{};
  SLIP_CHECK(hex.size() == 2 * key.size());
  for (size_t i = 0; i < key.size(); ++i) key[i] = (nibble(hex[2 * i]) << 4) | nibble(hex[2 * i + 1]);
  return key;
}

}  // namespace slip::session
