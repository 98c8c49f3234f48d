// Equality and order of values, as Python has them.
#include <cmath>

#include "text/jinja/dict.h"
#include "text/jinja/failure.h"

namespace slip::text::jinja {
namespace {

int sign(auto left, auto right) {
  return left < right ? -1 : left > right ? 1 : 0;
}

int compare_digits(std::string_view left, std::string_view right) {
  const bool minus = left.starts_with('-');
  if (minus != right.starts_with('-')) return minus ? -1 : 1;
  const int longer = sign(left.size(), right.size());
  const int size = longer != 0 ? longer : left.compare(right);
  return minus ? -size : size;
}

/// -1, 0, 1, or 2 when one is not a number at all. An integer beyond 64 bits is larger than every other.
int compare_numbers(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return sign(left.integer(), right.integer());
  const bool left_is_big = left.is(Kind::kBigInt);
  if (left_is_big && right.is(Kind::kBigInt)) return sign(compare_digits(left.view(), right.view()), 0);
  if (left_is_big) return left.view().starts_with('-') ? -1 : 1;
  if (right.is(Kind::kBigInt)) return right.view().starts_with('-') ? 1 : -1;
  if (std::isnan(left.real()) || std::isnan(right.real())) return 2;
  return sign(left.real(), right.real());
}

bool numeric(const Value& value) {
  return value.is_number() || value.is(Kind::kBigInt);
}

bool equal_dicts(Heap& heap, const Dict& left, const Dict& right) {
  if (left.size != right.size) return false;
  for (const Entry& entry : left.all()) {
    heap.charge();
    const Value* other = find(heap, right, entry.key);
    if (other == nullptr || !equal(heap, entry.value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  if (left.count != right.count) return false;
  return left.count == 0 || (left.start == right.start && (left.count == 1 || left.step == right.step));
}

std::string_view sign_of(Order order) {
  switch (order) {
    case Order::kLess: return "<";
    case Order::kLessOrEqual: return "<=";
    case Order::kGreater: return ">";
    case Order::kGreaterOrEqual: break;
  }
  return ">=";
}

bool holds(Order order, int comparison) {
  switch (order) {
    case Order::kLess: return comparison < 0;
    case Order::kLessOrEqual: return comparison <= 0;
    case Order::kGreater: return comparison > 0;
    case Order::kGreaterOrEqual: break;
  }
  return comparison >= 0;
}

}  // namespace

bool equal(Heap& heap, const Value& left, const Value& right) {
  if (numeric(left) && numeric(right)) return compare_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kString: heap.charge_bytes(left.text().size); return left.view() == right.view();
    case Kind::kNone:
    case Kind::kUndefined: return true;
    case Kind::kList:
    case Kind::kTuple: {
      const Depth depth(heap);
      const auto a = left.items();
      const auto b = right.items();
      if (a.size() != b.size()) return false;
      if (a.data() == b.data()) return true;
      for (size_t i = 0; i < a.size(); ++i) {
        heap.charge();
        if (!equal(heap, a[i], b[i])) return false;
      }
      return true;
    }
    case Kind::kDict: {
      const Depth depth(heap);
      return left.same(right) || equal_dicts(heap, *left.dict(), *right.dict());
    }
    case Kind::kRange: return equal_ranges(*left.as<Range>(), *right.as<Range>());
    default: return left.same(right);
  }
}

bool ordered(Heap& heap, Order order, const Value& left, const Value& right) {
  demand_defined(left);
  demand_defined(right);
  if (numeric(left) && numeric(right)) {
    const int comparison = compare_numbers(left, right);
    return comparison != 2 && holds(order, comparison);
  }
  if (left.is_string() && right.is_string()) {
    heap.charge_bytes(left.text().size);
    // UTF-8 sorts as its code points do.
    return holds(order, left.view().compare(right.view()));
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    const Depth depth(heap);
    const auto a = left.items();
    const auto b = right.items();
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      heap.charge();
      if (!equal(heap, a[i], b[i])) return ordered(heap, order, a[i], b[i]);
    }
    return holds(order, sign(a.size(), b.size()));
  }
  type_error("'{}' not supported between instances of '{}' and '{}'", sign_of(order), type_name(left),
             type_name(right));
}

}  // namespace slip::text::jinja
