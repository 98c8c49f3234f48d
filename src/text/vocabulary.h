// Vocabulary: the tokens of a model, by id and by text. A piece is a token's text as the file spells it:
// spaces are U+2581, byte-fallback tokens are "<0xNN>". Ids may have holes (their piece is empty and cannot
// be found by text).
//
// The way from text to id is an open-addressing table of ids that hashes the pieces themselves: 8 bytes a
// slot, no copy of the texts, and the whole stays valid when the vocabulary is moved or copied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slip::text {

class Vocabulary {
 public:
  static constexpr int kNone = -1;

  Vocabulary() = default;
  /// Room for `ids` ids, all of them holes.
  explicit Vocabulary(int ids);

  /// Names an id. False, and nothing changes, when the id already has another piece or the piece another id.
  /// The piece must not be empty and the id must be in range.
  bool add(int id, std::string_view piece);
  void mark_special(int id) { special_[static_cast<size_t>(id)] = true; }

  int size() const { return static_cast<int>(pieces_.size()); }
  int find(std::string_view piece) const;
  bool contains(int id) const { return id >= 0 && id < size(); }
  /// Empty for holes; the id must be in range.
  const std::string& piece(int id) const { return pieces_[static_cast<size_t>(id)]; }
  bool is_special(int id) const { return special_[static_cast<size_t>(id)]; }

 private:
  struct Slot {
    uint32_t tag;  // low half of the hash: spares most comparisons of texts
    int32_t id;
  };
  Slot& slot_of(std::string_view piece, uint64_t hash);

  std::vector<std::string> pieces_;
  std::vector<bool> special_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

/// The byte that a byte-fallback token "<0xNN>" stands for, or -1 for any other piece.
int byte_value(std::string_view piece);
/// "<0xNN>" for a byte.
std::string byte_piece(uint8_t byte);

}  // namespace slip::text
