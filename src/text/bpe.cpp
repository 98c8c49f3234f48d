#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace slip::text {
namespace {

// A candidate pair as one number, so that the heap compares once: its rank, then the place of its left
// symbol.
uint64_t candidate(uint32_t rank, int at) {
  return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(at);
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(options) {
  for (int i = 0; i < 128; ++i) {
    const char character = static_cast<char>(i);
    ascii_[static_cast<size_t>(i)] = symbol_of({&character, 1});
  }
  for (int i = 0; i < 256; ++i) {
    const int id =
        options_.byte_fallback ? symbol_of(byte_piece(static_cast<uint8_t>(i))) : Vocabulary::kNone;
    bytes_[static_cast<size_t>(i)] = id;
  }
}

bool Bpe::covers_all_text() const {
  return options_.unk != Vocabulary::kNone || std::ranges::count(bytes_, Vocabulary::kNone) == 0;
}

int Bpe::symbol_of(std::string_view character) const {
  const int id = vocabulary_.find(character);
  return id != Vocabulary::kNone && vocabulary_.is_special(id) ? Vocabulary::kNone : id;
}

void Bpe::split(std::string_view text, std::vector<Symbol>& symbols) const {
  symbols.clear();
  while (!text.empty()) {
    const size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    int id = Vocabulary::kNone;
    if (length == 1) id = ascii_[static_cast<uint8_t>(character[0])];
    if (length > 1) id = symbol_of(character);
    if (id != Vocabulary::kNone) {
      symbols.push_back({id, 0, 0, {}});
    } else {
      add_unknown(character, symbols);
    }
    text.remove_prefix(character.size());
  }
  const int count = static_cast<int>(symbols.size());
  for (int i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
}

void Bpe::add_unknown(std::string_view bytes, std::vector<Symbol>& symbols) const {
  const auto token = [&](char byte) { return bytes_[static_cast<uint8_t>(byte)]; };
  if (std::ranges::none_of(bytes, [&](char byte) { return token(byte) == Vocabulary::kNone; })) {
    for (const char byte : bytes) symbols.push_back({token(byte), 0, 0, {}});
    return;
  }
  const bool fused = options_.fuse_unk && !symbols.empty() && symbols.back().id == options_.unk;
  if (!fused) symbols.push_back({options_.unk, 0, 0, {}});
}

Merge Bpe::merge_at(const std::vector<Symbol>& symbols, int at) const {
  const Symbol& left = symbols[static_cast<size_t>(at)];
  return left.next < 0 ? Merge{} : merges_.find(left.id, symbols[static_cast<size_t>(left.next)].id);
}

void Bpe::encode(std::string_view text, Scratch& scratch, std::vector<int>& out) const {
  SLIP_CHECK(text.size() < size_t{INT32_MAX});
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& heap = scratch.heap;
  split(text, symbols);
  if (symbols.empty()) return;

  heap.clear();
  for (int i = 0; i < static_cast<int>(symbols.size()); ++i) {
    const Merge merge = merge_at(symbols, i);
    symbols[static_cast<size_t>(i)].merge = merge;
    if (merge.rank != Merge::kNever) heap.push_back(candidate(merge.rank, i));
  }
  std::ranges::make_heap(heap, std::greater{});

  const auto refresh = [&](int at) {
    const Merge merge = merge_at(symbols, at);
    symbols[static_cast<size_t>(at)].merge = merge;
    if (merge.rank == Merge::kNever) return;
    heap.push_back(candidate(merge.rank, at));
    std::ranges::push_heap(heap, std::greater{});
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater{});
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    const int at = static_cast<int>(heap.back() & UINT32_MAX);
    heap.pop_back();
    Symbol& left = symbols[static_cast<size_t>(at)];
    if (left.merge.rank != rank) continue;  // one of the two has joined another since
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    left.id = left.merge.id;
    left.next = right.next;
    right.merge = {};
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = at;
    refresh(at);
    if (left.previous >= 0) refresh(left.previous);
  }
  for (int at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next) {
    out.push_back(symbols[static_cast<size_t>(at)].id);
  }
}

}  // namespace slip::text
