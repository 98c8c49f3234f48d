// Methods of lists, tuples, dicts and numbers, and of what jinja2 adds: loops and cyclers.
#include <array>
#include <bit>
#include <cmath>

#include "text/jinja/builtin_help.h"

namespace slip::text::jinja {
namespace {

using Given = const Bound&;

/// What the immutable sandbox refuses; reached by name only to be told apart from what does not exist.
Value refused(Interpreter&, const Value& self, Given) {
  raise(Fault::kSecurityError, "a {} must not be changed", type_name(self));
}

Value list_index(Interpreter& run, const Value& self, Given given) {
  const auto items = self.items();
  const auto size = static_cast<int64_t>(items.size());
  const auto place = [&](const Value& value, int64_t standard) {
    const int64_t at = need_integer(value, standard);
    return std::min(at < 0 ? std::max<int64_t>(at + size, 0) : at, size);
  };
  const int64_t end = place(given[2], size);
  for (int64_t i = place(given[1], 0); i < end; ++i) {
    run.heap().charge();
    if (equal(run.heap(), items[static_cast<size_t>(i)], given[0])) return Value::of(i);
  }
  raise(Fault::kValueError, "{} is not in {}", repr(run.heap(), given[0]).view(), type_name(self));
}

Value list_count(Interpreter& run, const Value& self, Given given) {
  int64_t count = 0;
  for (const Value& item : self.items()) {
    run.heap().charge();
    count += equal(run.heap(), item, given[0]);
  }
  return Value::of(count);
}

Value list_copy(Interpreter&, const Value& self, Given) {
  return self;  // lists never change
}

Value dict_get(Interpreter& run, const Value& self, Given given) {
  const Value* found = find(run.heap(), *self.dict(), given[0]);
  if (found != nullptr) return *found;
  return given.has(1) ? given[1] : Value::none();
}

template <DictView::Part kPart>
Value dict_view(Interpreter& run, const Value& self, Given) {
  auto* view = run.heap().make<DictView>();
  *view = {kPart, self.dict()};
  return Value::pointing(Kind::kView, view);
}

Value dict_copy(Interpreter&, const Value& self, Given) {
  return self;
}

Value dict_fromkeys(Interpreter& run, const Value&, Given given) {
  auto* dict = run.heap().make<Dict>();
  Walk walk(run.heap(), given[0]);
  for (Value key; walk.next(key);) {
    run.heap().charge();
    set(run.heap(), *dict, key, given.has(1) ? given[1] : Value::none());
  }
  return Value::of(dict);
}

Value bit_length(Interpreter&, const Value& self, Given) {
  const int64_t number = self.integer();
  const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  return Value::of(static_cast<int64_t>(std::bit_width(magnitude)));
}
Value bit_count(Interpreter&, const Value& self, Given) {
  const int64_t number = self.integer();
  const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  return Value::of(int64_t{std::popcount(magnitude)});
}
Value conjugate(Interpreter&, const Value& self, Given) {
  return positive(self);
}
Value is_integer(Interpreter&, const Value& self, Given) {
  return Value::of(std::isfinite(self.real()) && std::floor(self.real()) == self.real());
}

Value loop_cycle(Interpreter&, const Value& self, Given given) {
  const auto items = given.all->positional;
  if (items.empty()) type_error("no items for cycling given");
  return items[static_cast<size_t>(self.as<Loop>()->index0) % items.size()];
}

Value loop_changed(Interpreter& run, const Value& self, Given given) {
  const auto items = given.all->positional;
  const Value now = Value::tuple({run.heap().copy(items.data(), items.size()), items.size()});
  Loop& loop = *self.as<Loop>();
  if (!loop.changed.is_missing() && equal(run.heap(), loop.changed, now)) return Value::of(false);
  loop.changed = now;
  return Value::of(true);
}

Value cycler_next(Interpreter&, const Value& self, Given) {
  auto& cycler = *self.as<Cycler>();
  const Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % static_cast<uint32_t>(cycler.items.size());
  return current;
}

Value cycler_reset(Interpreter&, const Value& self, Given) {
  self.as<Cycler>()->position = 0;
  return Value::none();
}

constexpr auto kList = std::to_array<Builtin>({
    {"index", list_index, "/value,start,stop", 1},
    {"count", list_count, "/value", 1},
    {"copy", list_copy},
    {"append", refused, "*", 0, true},
    {"clear", refused, "*", 0, true},
    {"extend", refused, "*", 0, true},
    {"insert", refused, "*", 0, true},
    {"pop", refused, "*", 0, true},
    {"remove", refused, "*", 0, true},
    {"reverse", refused, "*", 0, true},
    {"sort", refused, "*", 0, true},
});
constexpr auto kTuple = std::to_array<Builtin>({
    {"index", list_index, "/value,start,stop", 1},
    {"count", list_count, "/value", 1},
});
constexpr auto kDict = std::to_array<Builtin>({
    {"get", dict_get, "/key,default", 1},
    {"items", dict_view<DictView::Part::kItems>},
    {"keys", dict_view<DictView::Part::kKeys>},
    {"values", dict_view<DictView::Part::kValues>},
    {"copy", dict_copy},
    {"fromkeys", dict_fromkeys, "/iterable,value", 1},
    {"clear", refused, "*", 0, true},
    {"pop", refused, "*", 0, true},
    {"popitem", refused, "*", 0, true},
    {"setdefault", refused, "*", 0, true},
    {"update", refused, "*", 0, true},
});
constexpr auto kInt = std::to_array<Builtin>({
    {"bit_length", bit_length},
    {"bit_count", bit_count},
    {"conjugate", conjugate},
});
constexpr auto kFloat = std::to_array<Builtin>({
    {"is_integer", is_integer},
    {"conjugate", conjugate},
});
constexpr auto kLoop = std::to_array<Builtin>({
    {"cycle", loop_cycle, "*"},
    {"changed", loop_changed, "*"},
});
constexpr auto kCycler = std::to_array<Builtin>({
    {"next", cycler_next},
    {"reset", cycler_reset},
});

}  // namespace

std::span<const Builtin> other_methods(Kind kind) {
  switch (kind) {
    case Kind::kList: return kList;
    case Kind::kTuple: return kTuple;
    case Kind::kDict: return kDict;
    case Kind::kBool:
    case Kind::kInt: return kInt;
    case Kind::kFloat: return kFloat;
    case Kind::kLoop: return kLoop;
    case Kind::kCycler: return kCycler;
    default: return {};
  }
}

}  // namespace slip::text::jinja
