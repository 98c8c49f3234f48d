#include "text/jinja/text_store.h"

#include <algorithm>

#include "text/jinja/failure.h"
#include "text/utf8.h"

namespace slip::text::jinja {
namespace {

// Windows count in 32 bits.
constexpr size_t kLongestText = size_t{1} << 31;

bool is_ascii(std::string_view bytes) {
  uint8_t bits = 0;
  for (const char c : bytes) bits = static_cast<uint8_t>(bits | static_cast<uint8_t>(c));
  return bits < 0x80;
}

void add_run(Heap& heap, TextStore& store, uint32_t end, Origin origin) {
  if (store.run_count > 0 && store.runs[store.run_count - 1].origin == origin) {
    store.runs[store.run_count - 1].end = end;
    return;
  }
  if (store.run_count == store.run_capacity) {
    if (store.run_capacity == 0) {
      store.runs = &store.first;
      store.run_capacity = 1;
    } else {
      const uint32_t capacity = store.run_capacity * 4;
      TextRun* runs = heap.array<TextRun>(capacity);
      std::copy_n(store.runs, store.run_count, runs);
      store.runs = runs;
      store.run_capacity = capacity;
    }
  }
  store.runs[store.run_count++] = {end, origin};
}

void reserve(Heap& heap, TextStore& store, size_t size) {
  if (size <= store.capacity) return;
  if (size > kLongestText) raise(Fault::kMemoryError, "a text of {} bytes is too long", size);
  const size_t capacity = std::max(size, size_t{store.capacity} * 2);
  char* data = heap.array<char>(capacity);
  std::copy_n(store.data, store.size, data);
  store.data = data;
  store.capacity = static_cast<uint32_t>(capacity);
}

void append(Heap& heap, TextStore& store, std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  reserve(heap, store, size_t{store.size} + bytes.size());
  std::copy(bytes.begin(), bytes.end(), store.data + store.size);
  store.size += static_cast<uint32_t>(bytes.size());
  store.ascii = store.ascii && is_ascii(bytes);
  add_run(heap, store, store.size, origin);
}

}  // namespace

Origin Text::origin_at(size_t index) const {
  Origin found = Origin::kForeign;
  for_each_run(part(index, 1), [&](std::string_view, Origin origin) { found = origin; });
  return found;
}

TextBuilder::TextBuilder(Heap& heap, size_t expected) : heap_(heap), store_(heap.make<TextStore>()) {
  if (expected > 0) reserve(heap, *store_, expected);
}

void TextBuilder::append(std::string_view bytes, Origin origin) {
  if (store_->capacity == 0) reserve(heap_, *store_, std::max(bytes.size(), size_t{64}));
  jinja::append(heap_, *store_, bytes, origin);
}

void TextBuilder::append(const Text& text) {
  if (text.store->run_count == 1) return append(text.view(), text.store->first.origin);
  for_each_run(text, [&](std::string_view bytes, Origin origin) { append(bytes, origin); });
}

void TextBuilder::append_character(char32_t code, Origin origin) {
  char bytes[4];
  size_t size = 0;
  if (code < 0x80) {
    bytes[size++] = static_cast<char>(code);
  } else if (code < 0x800) {
    bytes[size++] = static_cast<char>(0xC0 | (code >> 6));
    bytes[size++] = static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    bytes[size++] = static_cast<char>(0xE0 | (code >> 12));
    bytes[size++] = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    bytes[size++] = static_cast<char>(0x80 | (code & 0x3F));
  } else {
    bytes[size++] = static_cast<char>(0xF0 | (code >> 18));
    bytes[size++] = static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    bytes[size++] = static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    bytes[size++] = static_cast<char>(0x80 | (code & 0x3F));
  }
  append({bytes, size}, origin);
}

void TextBuilder::append_times(std::string_view bytes, size_t times, Origin origin) {
  if (bytes.empty() || times == 0) return;
  if (times > kLongestText / bytes.size()) raise(Fault::kMemoryError, "a text would become too long");
  reserve(heap_, *store_, store_->size + bytes.size() * times);
  heap_.charge_bytes(bytes.size() * times);
  for (size_t i = 0; i < times; ++i) append(bytes, origin);
}

Text make_text(Heap& heap, std::string_view bytes, Origin origin) {
  if (bytes.empty()) return empty_text();
  TextStore* store = heap.make<TextStore>();
  append(heap, *store, bytes, origin);
  return {store, 0, store->size, false};
}

Text empty_text() {
  static TextStore store;  // has no room, so nothing is ever appended to it
  return {&store, 0, 0, false};
}

Text concatenate(Heap& heap, const Text& left, const Text& right) {
  if (right.empty()) return left;
  if (left.empty()) return right;
  heap.charge_bytes(right.size);
  const size_t size = size_t{left.size} + right.size;
  const bool at_the_end = left.begin + left.size == left.store->size;
  TextStore* store = left.store;
  uint32_t begin = left.begin;
  if (!at_the_end || store->capacity - store->size < right.size) {
    heap.charge_bytes(left.size);
    store = heap.make<TextStore>();
    begin = 0;
    // Room to grow, as a text that was added to once often is again. A short one gets little.
    reserve(heap, *store, size < 64 ? size + 32 : size * 2);
    for_each_run(left, [&](std::string_view bytes, Origin origin) { append(heap, *store, bytes, origin); });
  }
  for_each_run(right, [&](std::string_view bytes, Origin origin) { append(heap, *store, bytes, origin); });
  return {store, begin, static_cast<uint32_t>(size), left.markup};
}

size_t count_characters(const Text& text) {
  if (text.ascii()) return text.size;
  size_t count = 0;
  const std::string_view bytes = text.view();
  for (size_t at = 0; at < bytes.size(); ++count) at += character_at(bytes, at).size;
  return count;
}

size_t byte_of_character(const Text& text, size_t index) {
  if (text.ascii()) return index;
  size_t at = 0;
  const std::string_view bytes = text.view();
  for (; index > 0 && at < bytes.size(); --index) at += character_at(bytes, at).size;
  return at;
}

Character character_at(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {byte, 1};
  const size_t length = character_length(text.substr(at));
  if (length == 0) return {0xFFFD, 1};
  char32_t code = byte & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = (code << 6) | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
  return {code, static_cast<uint32_t>(length)};
}

}  // namespace slip::text::jinja
