#include "synth/synthetic_tensor.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "base/noise.h"

namespace slip::synth {

namespace {

constexpr uint64_t kLanes = 0x0001000100010001ull;  // one bit per 16-bit lane
constexpr uint64_t kSignAndMantissa = 0x807f * kLanes;
constexpr uint64_t kExponentChoice = 0x0180 * kLanes;  // two bits: how far below the largest exponent
// Root mean square of +-m * 2^-j for m uniform in [1, 2) and j uniform in 0..3.
constexpr double kUnitDeviation = 0.8803;

// FNV-1a: spreads names well enough for mix64 to do the rest.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// Fills words [first, first + count) of a tensor's stream through `make`, which the compiler inlines.
template <typename Make>
void fill(std::byte* out, uint64_t key, uint64_t first, size_t count, Make make) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t word = make(keyed_bits(key, first + i));
    std::memcpy(out + 8 * i, &word, sizeof(word));
  }
}

}  // namespace

Filling random_codes() {
  return {};
}

Filling random_weights(double deviation) {
  const int exponent = static_cast<int>(std::lround(std::log2(deviation / kUnitDeviation)));
  // The smallest of the four exponents must still be a normal number.
  SLIP_CHECK(exponent + 127 > 3 && exponent + 127 < 255);
  return {.kind = Filling::Kind::kWeights, .exponents = static_cast<uint64_t>(exponent + 127) << 7};
}

Filling values_near(double centre, double spread) {
  return values_near(centre, spread, 1.0);
}

Filling values_near(double centre, double spread, double factor) {
  Filling filling{.kind = Filling::Kind::kNear};
  const auto count = static_cast<double>(filling.values.size());
  for (size_t i = 0; i < filling.values.size(); ++i) {
    const double at = (2.0 * static_cast<double>(i) + 1.0) / count - 1.0;  // in (-1, 1)
    const float value = round_to_bf16(static_cast<float>(centre * (1.0 + spread * at)));
    filling.values[i] = to_bf16(value * static_cast<float>(factor)).bits;
  }
  return filling;
}

SyntheticTensor::SyntheticTensor(const Spec& spec, uint64_t seed)
    : StoredTensor(spec.name, spec.dtype, spec.shape),
      key_(noise_key(seed, hash_name(spec.stream.empty() ? spec.name : spec.stream))),
      filling_(spec.filling) {
  SLIP_CHECK(filling_.kind == Filling::Kind::kCodes || spec.dtype == tensor::DType::kBf16);
}

const std::byte* SyntheticTensor::read(size_t offset, size_t count, std::vector<std::byte>& scratch) const {
  SLIP_CHECK(offset <= bytes() && count <= bytes() - offset);
  const uint64_t first = offset / 8;
  const size_t words = (offset % 8 + count + 7) / 8;
  if (scratch.size() < words * 8) scratch.resize(words * 8);
  std::byte* out = scratch.data();
  switch (filling_.kind) {
    case Filling::Kind::kCodes: fill(out, key_, first, words, [](uint64_t r) { return r; }); break;
    case Filling::Kind::kWeights: {
      const uint64_t largest = filling_.exponents * kLanes;
      fill(out, key_, first, words,
           [largest](uint64_t r) { return (r & kSignAndMantissa) | (largest - (r & kExponentChoice)); });
      break;
    }
    case Filling::Kind::kNear: {
      const auto* values = filling_.values.data();
      fill(out, key_, first, words, [values](uint64_t r) {
        uint64_t word = 0;
        for (int lane = 0; lane < 64; lane += 16) word |= uint64_t{values[(r >> lane) & 63]} << lane;
        return word;
      });
      break;
    }
  }
  return out + offset % 8;
}

std::unique_ptr<tensor::StoredTensor> make_tensor(const SyntheticTensor::Spec& spec, uint64_t seed) {
  if (spec.ids != nullptr) return std::make_unique<IdTensor>(spec.name, spec.dtype, spec.ids);
  if (spec.pattern.pattern != nullptr) {
    return std::make_unique<PatternTensor>(spec.name, spec.shape, spec.pattern);
  }
  return std::make_unique<SyntheticTensor>(spec, seed);
}

}  // namespace slip::synth
