// PageKey: what a committed page of a cache holds, as one hash. K and V of a prefix are a pure function of its
// tokens and media, so equal keys mean equal pages. A key is chained: it stands for everything from the first
// position to the end of its page.
//
// The root is a namespace (weights, drafter, type of the cache, numerics of the backend) and a salt. Two tenants
// with different salts share nothing. A hash can collide, so whoever finds a page by key compares its tokens too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace slip::kv {

/// Of what an encoder was given and how it was told to encode it: a SHA-256.
using MediaKey = std::array<std::byte, 32>;

/// Whose pages: of an API key and the request's own salt. All zeros is nobody's in particular.
struct Salt {
  uint64_t high = 0, low = 0;
  bool operator==(const Salt&) const = default;
};
Salt salt_of(std::string_view tenant);

struct PageKey {
  uint64_t high = 0, low = 0;
  bool operator==(const PageKey&) const = default;
};

/// The beginning of every chain of a namespace and a salt.
PageKey root_key(std::string_view name_space, const Salt& salt);
/// The chain goes on with tokens, or with rows [offset, offset + rows) of a media item.
PageKey chain(const PageKey& before, std::span<const int> tokens);
PageKey chain(const PageKey& before, const MediaKey& media, int offset, int rows);

// Positions that one key stands for. Shorter units find longer common prefixes, longer ones cost less; 64 loses 32
// positions of a hit on average, half a step of a prompt at most.
inline constexpr int kHashUnit = 64;

struct PageKeyHash {
  size_t operator()(const PageKey& key) const { return static_cast<size_t>(key.high ^ key.low); }
};

}  // namespace slip::kv
