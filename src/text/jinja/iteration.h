// Walking over what Python can iterate: lists, tuples, dicts, strings by character, ranges, views,
// generators.
#pragma once

#include <vector>

#include "text/jinja/dict.h"
#include "text/jinja/value.h"

namespace slip::text::jinja {

class Walk {
 public:
  /// TypeError when the value cannot be walked.
  Walk(Heap& heap, const Value& value);
  /// False at the end.
  bool next(Value& item);

 private:
  Heap& heap_;
  Value value_;
  int64_t at_ = 0;
  int64_t end_ = 0;
};

bool is_iterable(const Value& value);
/// list(value)
std::span<const Value> to_items(Heap& heap, const Value& value);
Value make_list(Heap& heap, const std::vector<Value>& items, Kind kind = Kind::kList);
/// What a filter returns that is lazy in Python: it can be walked once.
Value make_iterator(Heap& heap, std::span<const Value> items);
Value make_pair(Heap& heap, const Value& first, const Value& second);
Value make_text_value(Heap& heap, std::string_view text, Origin origin = Origin::kTemplate);

}  // namespace slip::text::jinja
