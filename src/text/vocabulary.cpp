#include "text/vocabulary.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <functional>

#include "base/check.h"

namespace slip::text {
namespace {

uint64_t hash_of(std::string_view piece) {
  return std::hash<std::string_view>{}(piece);
}

}  // namespace

Vocabulary::Vocabulary(int ids)
    : pieces_(static_cast<size_t>(ids)),
      special_(static_cast<size_t>(ids)),
      slots_(std::bit_ceil(static_cast<size_t>(ids) * 2 + 2), Slot{0, kNone}) {}

Vocabulary::Slot& Vocabulary::slot_of(std::string_view piece, uint64_t hash) {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash);
  size_t at = (hash >> 32) & mask;
  while (slots_[at].id != kNone &&
         (slots_[at].tag != tag || pieces_[static_cast<size_t>(slots_[at].id)] != piece)) {
    at = (at + 1) & mask;
  }
  return slots_[at];
}

bool Vocabulary::add(int id, std::string_view piece) {
  SLIP_CHECK(contains(id) && !piece.empty());
  const uint64_t hash = hash_of(piece);
  Slot& slot = slot_of(piece, hash);
  std::string& named = pieces_[static_cast<size_t>(id)];
  if (slot.id != kNone) return slot.id == id;
  if (!named.empty()) return false;
  named = piece;
  slot = {static_cast<uint32_t>(hash), id};
  return true;
}

int Vocabulary::find(std::string_view piece) const {
  if (slots_.empty()) return kNone;
  return const_cast<Vocabulary*>(this)->slot_of(piece, hash_of(piece)).id;
}

int byte_value(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return error == std::errc{} && end == piece.data() + 5 ? static_cast<int>(value) : -1;
}

std::string byte_piece(uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

}  // namespace slip::text
