// Text with the origin of every byte. A TextStore holds bytes that are only ever appended to, and runs of
// origin over them; a Text is a window on one. So slicing, trimming and splitting copy nothing, and a text
// that grows by repeated `a ~ b` grows in place while its end is also the end of its store.
//
// Positions are bytes; text is UTF-8 throughout. `ascii` is true when all bytes of a store are.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/jinja/heap.h"
#include "text/rendered.h"

namespace slip::text::jinja {

struct TextRun {
  uint32_t end;
  Origin origin;
};

struct TextStore {
  char* data = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;  // equal to `size` when nothing may be appended
  TextRun* runs = nullptr;
  uint32_t run_count = 0;
  uint32_t run_capacity = 0;
  bool ascii = true;
  TextRun first = {};  // where runs live while there is one
};

struct Text {
  TextStore* store = nullptr;
  uint32_t begin = 0;
  uint32_t size = 0;
  bool markup = false;  // safe for HTML, as jinja2's Markup

  std::string_view view() const { return {store->data + begin, size}; }
  bool empty() const { return size == 0; }
  bool ascii() const { return store->ascii; }
  /// The bytes [from, from + count) of it.
  Text part(size_t from, size_t count) const {
    return {store, begin + static_cast<uint32_t>(from), static_cast<uint32_t>(count), markup};
  }
  /// The part that `inside`, a window on view(), shows.
  Text part(std::string_view inside) const {
    return part(static_cast<size_t>(inside.data() - view().data()), inside.size());
  }
  Origin origin_at(size_t index) const;
};

/// Writes a text, byte by byte or in pieces. It must be the only one that writes into its store.
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap, size_t expected = 0);

  void append(std::string_view bytes, Origin origin);
  void append(const Text& text);
  void append_character(char32_t character, Origin origin);
  void append_times(std::string_view bytes, size_t times, Origin origin);
  uint32_t size() const { return store_->size; }
  std::string_view view() const { return {store_->data, store_->size}; }
  const TextStore& store() const { return *store_; }
  Text finish() const { return {store_, 0, store_->size, false}; }

 private:
  Heap& heap_;
  TextStore* store_;
};

/// A text of one origin. The bytes are copied.
Text make_text(Heap& heap, std::string_view bytes, Origin origin = Origin::kTemplate);
/// The empty text.
Text empty_text();
Text concatenate(Heap& heap, const Text& left, const Text& right);

/// A window on a string's runs: calls `visit(bytes, origin)` for each stretch of one origin.
template <typename Visit>
void for_each_run(const Text& text, Visit visit) {
  const TextStore& store = *text.store;
  uint32_t at = text.begin;
  const uint32_t end = text.begin + text.size;
  uint32_t low = 0;
  uint32_t high = store.run_count;
  while (low < high) {  // the first run that ends behind `at`
    const uint32_t middle = (low + high) / 2;
    if (store.runs[middle].end > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  for (uint32_t run = low; at < end; ++run) {
    const uint32_t stop = store.runs[run].end < end ? store.runs[run].end : end;
    visit(std::string_view(store.data + at, stop - at), store.runs[run].origin);
    at = stop;
  }
}

// Characters, as Python counts them.
size_t count_characters(const Text& text);
/// The byte where character `index` begins; `index` may be the count of characters.
size_t byte_of_character(const Text& text, size_t index);
/// The character that begins at `at`, and how many bytes it takes. Bytes that are no UTF-8 count as one each.
struct Character {
  char32_t code;
  uint32_t size;
};
Character character_at(std::string_view text, size_t at);

}  // namespace slip::text::jinja
