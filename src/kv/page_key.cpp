#include "kv/page_key.h"

#include <algorithm>
#include <cstring>

#include "base/noise.h"

namespace slip::kv {
namespace {

// What a link of the chain stands for enters its hash, so that tokens and media of equal numbers differ.
enum class Link : uint64_t { kText = 1, kTokens = 2, kMedia = 3 };

/// Two lanes that see the same words under different multipliers.
class Hash {
 public:
  Hash(uint64_t high, uint64_t low, Link link) : high_(high), low_(low) { add(static_cast<uint64_t>(link)); }
  void add(uint64_t word) {
    high_ = mix64(high_ * 0x9e3779b97f4a7c15ull + word);
    low_ = mix64((low_ ^ word) * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull);
  }
  template <typename Key>
  Key key() const {
    return {.high = mix64(high_), .low = mix64(low_ + high_)};
  }

 private:
  uint64_t high_, low_;
};

void add_text(Hash& hash, std::string_view text) {
  hash.add(text.size());
  for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof(word), text.size() - at));
    hash.add(word);
  }
}

}  // namespace

Salt salt_of(std::string_view tenant) {
  if (tenant.empty()) return {};
  Hash hash(1, 2, Link::kText);
  add_text(hash, tenant);
  return hash.key<Salt>();
}

PageKey root_key(std::string_view name_space, const Salt& salt) {
  Hash hash(salt.high, salt.low, Link::kText);
  add_text(hash, name_space);
  return hash.key<PageKey>();
}

PageKey chain(const PageKey& before, std::span<const int> tokens) {
  Hash hash(before.high, before.low, Link::kTokens);
  hash.add(tokens.size());
  for (const int token : tokens) hash.add(static_cast<uint64_t>(token));
  return hash.key<PageKey>();
}

PageKey chain(const PageKey& before, const MediaKey& media, int offset, int rows) {
  Hash hash(before.high, before.low, Link::kMedia);
  hash.add(static_cast<uint64_t>(offset));
  hash.add(static_cast<uint64_t>(rows));
  add_text(hash, {reinterpret_cast<const char*>(media.data()), media.size()});
  return hash.key<PageKey>();
}

}  // namespace slip::kv
