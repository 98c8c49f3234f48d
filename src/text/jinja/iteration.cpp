#include "text/jinja/iteration.h"

#include "text/jinja/callables.h"
#include "text/jinja/failure.h"

namespace slip::text::jinja {

Walk::Walk(Heap& heap, const Value& value) : heap_(heap), value_(value) {
  if (!is_iterable(value)) type_error("'{}' object is not iterable", type_name(value));
  switch (value.kind()) {
    case Kind::kUndefined: break;
    case Kind::kString: end_ = value.text().size; break;
    case Kind::kIterator: break;
    default: end_ = length_of(value);
  }
}

bool Walk::next(Value& item) {
  if (value_.is(Kind::kIterator)) {
    auto& iterator = *value_.as<Iterator>();
    if (iterator.pending != nullptr) {
      iterator.items = finish(*iterator.pending);
      iterator.pending = nullptr;
    }
    if (iterator.next == iterator.items.size()) return false;
    item = iterator.items[iterator.next++];
    return true;
  }
  if (at_ >= end_) return false;
  const auto at = static_cast<size_t>(at_);
  switch (value_.kind()) {
    case Kind::kList:
    case Kind::kTuple: item = value_.items()[at]; break;
    case Kind::kDict: item = value_.dict()->entries[at].key; break;
    case Kind::kRange: item = value_.as<Range>()->at(at_); break;
    case Kind::kString: {
      const uint32_t size = character_at(value_.view(), at).size;
      item = Value::of(value_.text().part(at, size));
      at_ += size;
      return true;
    }
    case Kind::kView: {
      const auto& view = *value_.as<DictView>();
      const Entry& entry = view.dict->entries[at];
      item = view.part == DictView::Part::kKeys     ? entry.key
             : view.part == DictView::Part::kValues ? entry.value
                                                    : make_pair(heap_, entry.key, entry.value);
      break;
    }
    default: return false;
  }
  ++at_;
  return true;
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator: return true;
    default: return false;
  }
}

std::span<const Value> to_items(Heap& heap, const Value& value) {
  if (value.is_sequence()) return value.items();
  Growing<Value> items(heap);
  Walk walk(heap, value);
  for (Value item; walk.next(item);) {
    heap.charge();
    items.push(item);
  }
  return {items.data(), items.size()};
}

Value make_list(Heap& heap, const std::vector<Value>& items, Kind kind) {
  return Value::list({heap.copy(items.data(), items.size()), items.size()}, kind);
}

Value make_iterator(Heap& heap, std::span<const Value> items) {
  auto* iterator = heap.make<Iterator>();
  iterator->items = items;
  return Value::pointing(Kind::kIterator, iterator);
}

Value make_pair(Heap& heap, const Value& first, const Value& second) {
  Value* pair = heap.array<Value>(2);
  new (pair) Value(first);
  new (pair + 1) Value(second);
  return Value::tuple({pair, 2});
}

Value make_text_value(Heap& heap, std::string_view text, Origin origin) {
  return Value::of(make_text(heap, text, origin));
}

}  // namespace slip::text::jinja
