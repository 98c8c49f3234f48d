// Tests: what stands behind `is`.
#include <array>

#include "text/jinja/builtin_help.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {
namespace {

using Given = const Bound&;

template <Kind... kKinds>
Value is_kind(Interpreter&, const Value& self, Given) {
  return Value::of((self.is(kKinds) || ...));
}

Value test_defined(Interpreter&, const Value& self, Given) {
  return Value::of(!self.is_undefined());
}
Value test_true(Interpreter&, const Value& self, Given) {
  return Value::of(self.is(Kind::kBool) && self.truth());
}
Value test_false(Interpreter&, const Value& self, Given) {
  return Value::of(self.is(Kind::kBool) && !self.truth());
}
Value test_sequence(Interpreter&, const Value& self, Given) {
  const bool indexed =
      self.is_sequence() || self.is_string() || self.is(Kind::kDict) || self.is(Kind::kRange);
  return Value::of(indexed || self.is_undefined());
}
Value test_iterable(Interpreter&, const Value& self, Given) {
  return Value::of(is_iterable(self) || self.is(Kind::kLoop));
}
Value test_callable(Interpreter&, const Value& self, Given) {
  switch (self.kind()) {
    case Kind::kUndefined:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kJoiner:
    case Kind::kBlock:
    case Kind::kLoop: return Value::of(true);
    default: return Value::of(false);
  }
}

/// self % by == rest
bool leaves(Interpreter& run, const Value& self, const Value& by, int64_t rest) {
  return equal(run.heap(), calculate(run.heap(), Operator::kModulo, self, by), Value::of(rest));
}
Value test_odd(Interpreter& run, const Value& self, Given) {
  return Value::of(leaves(run, self, Value::of(int64_t{2}), 1));
}
Value test_even(Interpreter& run, const Value& self, Given) {
  return Value::of(leaves(run, self, Value::of(int64_t{2}), 0));
}
Value test_divisibleby(Interpreter& run, const Value& self, Given given) {
  return Value::of(leaves(run, self, given[0], 0));
}

Value test_eq(Interpreter& run, const Value& self, Given given) {
  return Value::of(equal(run.heap(), self, given[0]));
}
Value test_ne(Interpreter& run, const Value& self, Given given) {
  return Value::of(!equal(run.heap(), self, given[0]));
}
template <Order kOrder>
Value is_ordered(Interpreter& run, const Value& self, Given given) {
  return Value::of(ordered(run.heap(), kOrder, self, given[0]));
}
Value test_in(Interpreter& run, const Value& self, Given given) {
  return Value::of(contains(run.heap(), given[0], self));
}

Value test_sameas(Interpreter&, const Value& self, Given given) {
  return Value::of(self.same(given[0]));
}
Value test_escaped(Interpreter&, const Value& self, Given) {
  return Value::of(self.is_string() && self.text().markup);
}
Value test_upper(Interpreter& run, const Value& self, Given) {
  const Value text = Value::of(soft_text(run, self));
  return call(run, *find_method(Kind::kString, "isupper"), text, {});
}
Value test_lower(Interpreter& run, const Value& self, Given) {
  const Value text = Value::of(soft_text(run, self));
  return call(run, *find_method(Kind::kString, "islower"), text, {});
}
Value test_filter(Interpreter& run, const Value& self, Given) {
  hash(run.heap(), self);  // refuses what cannot be a name
  return Value::of(self.is_string() && find_filter(self.view()) != nullptr);
}
Value test_test(Interpreter& run, const Value& self, Given) {
  hash(run.heap(), self);
  return Value::of(self.is_string() && find_test(self.view()) != nullptr);
}

constexpr auto kTests = std::to_array<Builtin>({
    {"defined", test_defined},
    {"undefined", is_kind<Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"boolean", is_kind<Kind::kBool>},
    {"true", test_true},
    {"false", test_false},
    {"integer", is_kind<Kind::kInt, Kind::kBigInt>},
    {"float", is_kind<Kind::kFloat>},
    {"number", is_kind<Kind::kInt, Kind::kBigInt, Kind::kFloat, Kind::kBool>},
    {"string", is_kind<Kind::kString>},
    {"mapping", is_kind<Kind::kDict>},
    {"sequence", test_sequence},
    {"iterable", test_iterable},
    {"callable", test_callable},
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisibleby, "num", 1},
    {"eq", test_eq, "/b", 1},
    {"==", test_eq, "/b", 1},
    {"equalto", test_eq, "/b", 1},
    {"ne", test_ne, "/b", 1},
    {"!=", test_ne, "/b", 1},
    {"lt", is_ordered<Order::kLess>, "/b", 1},
    {"<", is_ordered<Order::kLess>, "/b", 1},
    {"lessthan", is_ordered<Order::kLess>, "/b", 1},
    {"le", is_ordered<Order::kLessOrEqual>, "/b", 1},
    {"<=", is_ordered<Order::kLessOrEqual>, "/b", 1},
    {"gt", is_ordered<Order::kGreater>, "/b", 1},
    {">", is_ordered<Order::kGreater>, "/b", 1},
    {"greaterthan", is_ordered<Order::kGreater>, "/b", 1},
    {"ge", is_ordered<Order::kGreaterOrEqual>, "/b", 1},
    {">=", is_ordered<Order::kGreaterOrEqual>, "/b", 1},
    {"in", test_in, "seq", 1},
    {"sameas", test_sameas, "other", 1},
    {"escaped", test_escaped},
    {"upper", test_upper},
    {"lower", test_lower},
    {"filter", test_filter},
    {"test", test_test},
});

}  // namespace

std::span<const Builtin> all_tests() {
  return kTests;
}

}  // namespace slip::text::jinja
