#include "text/jinja/dict.h"

#include <functional>

#include "text/jinja/failure.h"

namespace slip::text::jinja {
namespace {

constexpr uint32_t kSearchedFromTheFront = 8;

uint64_t hash_text(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

void put(Dict& dict, uint64_t hash, uint32_t entry) {
  uint32_t at = static_cast<uint32_t>(hash) & dict.mask;
  while (dict.slots[at] != 0) at = (at + 1) & dict.mask;
  dict.slots[at] = entry + 1;
}

void build_table(Heap& heap, Dict& dict) {
  const uint32_t count = dict.capacity * 2;  // a power of two, half full at most
  dict.slots = heap.array<uint32_t>(count);
  std::fill_n(dict.slots, count, 0u);
  dict.mask = count - 1;
  heap.charge(dict.size / 4);
  for (uint32_t i = 0; i < dict.size; ++i) put(dict, hash(heap, dict.entries[i].key), i);
}

void add(Heap& heap, Dict& dict, const Entry& entry) {
  if (dict.size == dict.capacity) {
    const uint32_t capacity = dict.capacity == 0 ? 4 : dict.capacity * 2;
    Entry* entries = heap.array<Entry>(capacity);
    std::copy_n(dict.entries, dict.size, entries);
    dict.entries = entries;
    dict.capacity = capacity;
    if (capacity > kSearchedFromTheFront) build_table(heap, dict);
  }
  dict.entries[dict.size] = entry;
  if (dict.slots != nullptr) put(dict, hash(heap, entry.key), dict.size);
  ++dict.size;
}

Value* search(Heap& heap, const Dict& dict, const Value& key) {
  if (dict.slots == nullptr) {
    hash(heap, key);  // refuses what cannot be a key
    for (uint32_t i = 0; i < dict.size; ++i) {
      if (equal(heap, dict.entries[i].key, key)) return &dict.entries[i].value;
    }
    return nullptr;
  }
  for (uint32_t at = static_cast<uint32_t>(hash(heap, key)) & dict.mask; dict.slots[at] != 0;
       at = (at + 1) & dict.mask) {
    Entry& entry = dict.entries[dict.slots[at] - 1];
    if (equal(heap, entry.key, key)) return &entry.value;
  }
  return nullptr;
}

}  // namespace

const Value* find(const Dict& dict, std::string_view key) {
  const auto matches = [&](const Entry& entry) { return entry.key.is_string() && entry.key.view() == key; };
  if (dict.slots == nullptr) {
    for (uint32_t i = 0; i < dict.size; ++i) {
      if (matches(dict.entries[i])) return &dict.entries[i].value;
    }
    return nullptr;
  }
  for (uint32_t at = static_cast<uint32_t>(hash_text(key)) & dict.mask; dict.slots[at] != 0;
       at = (at + 1) & dict.mask) {
    const Entry& entry = dict.entries[dict.slots[at] - 1];
    if (matches(entry)) return &entry.value;
  }
  return nullptr;
}

const Value* find(Heap& heap, const Dict& dict, const Value& key) {
  return key.is_string() ? find(dict, key.view()) : search(heap, dict, key);
}

void set(Heap& heap, Dict& dict, const Value& key, const Value& value) {
  if (const Value* found = find(heap, dict, key)) {
    *const_cast<Value*>(found) = value;
    return;
  }
  hash(heap, key);
  add(heap, dict, {key, value});
}

void set(Heap& heap, Dict& dict, std::string_view key, const Value& value) {
  if (const Value* found = find(dict, key)) {
    *const_cast<Value*>(found) = value;
    return;
  }
  add(heap, dict, {Value::of(make_text(heap, key)), value});
}

Dict* copy(Heap& heap, const Dict& dict) {
  Dict* made = heap.make<Dict>();
  heap.charge(dict.size / 4);
  for (const Entry& entry : dict.all()) add(heap, *made, entry);
  return made;
}

uint64_t hash(Heap& heap, const Value& value) {
  switch (value.kind()) {
    case Kind::kString: return hash_text(value.view());
    case Kind::kFloat: {
      const double number = value.real();
      const bool whole = number >= -9.2e18 && number <= 9.2e18 &&
                         static_cast<double>(static_cast<int64_t>(number)) == number;
      if (!whole) return std::hash<double>()(number);
      return static_cast<uint64_t>(static_cast<int64_t>(number)) * 0x9E3779B97F4A7C15u;
    }
    case Kind::kBool:
    case Kind::kInt: return static_cast<uint64_t>(value.integer()) * 0x9E3779B97F4A7C15u;
    case Kind::kBigInt: return hash_text(value.view());
    case Kind::kTuple: {
      const Depth depth(heap);
      uint64_t sum = 0x345678;
      for (const Value& item : value.items()) {
        heap.charge();
        sum = (sum ^ hash(heap, item)) * 1000003;
      }
      return sum;
    }
    case Kind::kList:
    case Kind::kDict: type_error("unhashable type: '{}'", type_name(value));
    default: return 7;
  }
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.integer() != 0;
    case Kind::kFloat: return value.real() != 0;
    case Kind::kString: return value.text().size != 0;
    default: return length_of(value) != 0;
  }
}

int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return static_cast<int64_t>(count_characters(value.text()));
    case Kind::kList:
    case Kind::kTuple: return static_cast<int64_t>(value.items().size());
    case Kind::kDict: return value.dict()->size;
    case Kind::kView: return value.as<DictView>()->dict->size;
    case Kind::kRange: return value.as<Range>()->count;
    default: return -1;
  }
}

}  // namespace slip::text::jinja
