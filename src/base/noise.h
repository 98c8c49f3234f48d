// Counter-based randomness: a value is a pure function of its key, so it is the same however and whenever it
// is asked for. Sampling keys it by (seed, position, token id), synthetic weights by (seed, tensor, element).
#pragma once

#include <cstdint>

namespace slip {

/// A bijective 64-bit mixer (the finaliser of SplitMix64): every input bit reaches every output bit.
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 31;
  return x;
}

/// The key of one stream; draws from it are keyed_bits(key, index).
constexpr uint64_t noise_key(uint64_t seed, uint64_t stream) {
  return mix64(mix64(seed + 0x9e3779b97f4a7c15ull) ^
               (stream * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull));
}

constexpr uint64_t keyed_bits(uint64_t key, uint64_t index) {
  return mix64(key + (index + 1) * 0x9e3779b97f4a7c15ull);
}

/// Uniform in (0, 1), never 0 or 1, in steps of 2^-52.
constexpr double keyed_uniform(uint64_t key, uint64_t index) {
  return (static_cast<double>(keyed_bits(key, index) >> 12) + 0.5) * 0x1p-52;
}

}  // namespace slip
