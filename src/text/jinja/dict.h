// Dict: keys and values in the order they came, as Python keeps them. A key that is set again keeps its
// place. Short ones are searched from the front, longer ones through a table of hashes.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/value.h"

namespace slip::text::jinja {

struct Entry {
  Value key;
  Value value;
};

struct Dict {
  Entry* entries = nullptr;
  uint32_t size = 0;
  uint32_t capacity = 0;
  uint32_t* slots = nullptr;  // entry + 1, or 0; open addressing
  uint32_t mask = 0;

  std::span<const Entry> all() const { return {entries, size}; }
};

/// Null when it is not there.
const Value* find(const Dict& dict, std::string_view key);
/// An unhashable key is a TypeError.
const Value* find(Heap& heap, const Dict& dict, const Value& key);
void set(Heap& heap, Dict& dict, const Value& key, const Value& value);
void set(Heap& heap, Dict& dict, std::string_view key, const Value& value);
Dict* copy(Heap& heap, const Dict& dict);

/// What Python's `==`, `<` and hash() do with two values.
bool equal(Heap& heap, const Value& left, const Value& right);
enum class Order : uint8_t { kLess, kLessOrEqual, kGreater, kGreaterOrEqual };
/// TypeError when the two cannot be compared.
bool ordered(Heap& heap, Order order, const Value& left, const Value& right);
uint64_t hash(Heap& heap, const Value& value);
/// Whether `if value` is taken.
bool truthy(const Value& value);
/// len(); -1 when the value has none.
int64_t length_of(const Value& value);

}  // namespace slip::text::jinja
