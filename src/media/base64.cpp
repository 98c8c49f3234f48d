#include "media/base64.h"

#include <array>
#include <cstdint>

namespace slip::media {
namespace {

constexpr uint8_t kForeign = 0xFF;
constexpr uint8_t kBlank = 0xFE;
constexpr uint8_t kPadding = 0xFD;

constexpr std::array<uint8_t, 256> make_values(Base64 form) {
  std::array<uint8_t, 256> values{};
  values.fill(kForeign);
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
  values['='] = kPadding;
  if (form == Base64::kStrict) return values;
  values['-'] = values['+'];
  values['_'] = values['/'];
  for (const char blank : {' ', '\t', '\r', '\n'}) values[static_cast<uint8_t>(blank)] = kBlank;
  return values;
}

constexpr std::array<uint8_t, 256> kStrictValues = make_values(Base64::kStrict);
constexpr std::array<uint8_t, 256> kLenientValues = make_values(Base64::kLenient);

/// The end of the text: `count` characters after the last group of four hold the low 6 * count bits of
/// `bits`.
bool finish(uint32_t bits, int count, int padding, Base64 form, std::vector<std::byte>& out) {
  if (count == 1) return false;
  const int missing = count == 0 ? 0 : 4 - count;
  if (padding != missing && (form == Base64::kStrict || padding != 0)) return false;
  if (count == 0) return true;
  const int spare = count == 2 ? 4 : 2;  // bits that no byte takes
  if (form == Base64::kStrict && (bits & ((1u << spare) - 1)) != 0) return false;
  bits >>= spare;
  if (count == 3) out.push_back(static_cast<std::byte>(bits >> 8));
  out.push_back(static_cast<std::byte>(bits));
  return true;
}

}  // namespace

std::optional<std::vector<std::byte>> decode_base64(std::string_view text, Base64 form) {
  const auto& values = form == Base64::kStrict ? kStrictValues : kLenientValues;
  std::vector<std::byte> out;
  out.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  int padding = 0;
  for (const char c : text) {
    const uint8_t value = values[static_cast<uint8_t>(c)];
    if (value == kBlank) continue;
    if (value == kPadding) {
      ++padding;
      continue;
    }
    if (value == kForeign || padding > 0) return std::nullopt;
    bits = bits << 6 | value;
    if (++count < 4) continue;
    for (const int shift : {16, 8, 0}) out.push_back(static_cast<std::byte>(bits >> shift));
    bits = 0;
    count = 0;
  }
  if (!finish(bits, count, padding, form, out)) return std::nullopt;
  return out;
}

}  // namespace slip::media
