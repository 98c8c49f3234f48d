// Filters that put items in order or compare them with each other.
#include <algorithm>
#include <array>

#include "text/jinja/builtin_help.h"

namespace slip::text::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

/// Equal items keep their order, also backwards, as Python's sorted() does it. With `in_lists` keys compare
/// as if each stood in a list: two that are equal are never asked which is less, so they need not have an
/// order.
std::span<const Value> sorted(Interpreter& run, std::vector<Keyed>& items, bool reverse,
                              bool in_lists = false) {
  Heap& heap = run.heap();
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    heap.charge();
    const Value& first = reverse ? b.key : a.key;
    const Value& second = reverse ? a.key : b.key;
    return !(in_lists && equal(heap, first, second)) && ordered(heap, Order::kLess, first, second);
  });
  Value* made = heap.array<Value>(items.size());
  for (size_t i = 0; i < items.size(); ++i) made[i] = items[i].item;
  return {made, items.size()};
}

Value key_of(Interpreter& run, const Value& item, const Value& attribute, bool case_sensitive,
             const Value& standard = {}) {
  const Value reached = reach(run, item, attribute, standard);
  return case_sensitive ? reached : without_case(run.heap(), reached);
}

Value filter_sort(Interpreter& run, const Value& self, const Bound& given) {
  const bool case_sensitive = flag(given[1]);
  std::vector<Value> attributes{given[2]};
  if (given[2].is_string()) {
    attributes.clear();
    for (const Text& part : split_at(run.heap(), given[2].text(), ",", -1, false)) {
      attributes.push_back(Value::of(part));
    }
  }
  std::vector<Keyed> items;
  Walk walk(run.heap(), self);
  for (Value item; walk.next(item);) {
    run.heap().charge();
    if (attributes.size() == 1) {
      items.push_back({key_of(run, item, attributes[0], case_sensitive), item});
      continue;
    }
    Value* keys = run.heap().array<Value>(attributes.size());
    for (size_t i = 0; i < attributes.size(); ++i) keys[i] = key_of(run, item, attributes[i], case_sensitive);
    items.push_back({Value::list({keys, attributes.size()}), item});
  }
  return Value::list(sorted(run, items, flag(given[0]), true));
}

/// Most keys are short and plain; those are compared as they are.
bool less_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return static_cast<uint8_t>(c >= 'A' && c <= 'Z' ? c + 32 : c); };
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    const uint8_t x = lower(a[i]);
    const uint8_t y = lower(b[i]);
    if (x != y) return x < y;
  }
  return a.size() < b.size();
}

Value sort_plain_keys(Interpreter& run, const Dict& dict) {
  Heap& heap = run.heap();
  const Entry** entries = heap.array<const Entry*>(dict.size);
  for (uint32_t i = 0; i < dict.size; ++i) entries[i] = &dict.entries[i];
  heap.charge(dict.size);
  std::stable_sort(entries, entries + dict.size, [](const Entry* a, const Entry* b) {
    return less_without_case(a->key.view(), b->key.view());
  });
  Value* pairs = heap.array<Value>(dict.size);
  for (uint32_t i = 0; i < dict.size; ++i) pairs[i] = make_pair(heap, entries[i]->key, entries[i]->value);
  return Value::list({pairs, dict.size});
}

Value filter_dictsort(Interpreter& run, const Value& self, const Bound& given) {
  demand_defined(self);
  const std::string_view by = given.has(1) ? soft_text(run, given[1]).view() : std::string_view("key");
  if (by != "key" && by != "value") {
    raise(Fault::kFilterArgumentError, "You can only sort by either \"key\" or \"value\"");
  }
  if (!self.is(Kind::kDict)) {
    raise(Fault::kAttributeError, "'{}' object has no attribute 'items'", type_name(self));
  }
  const bool case_sensitive = flag(given[0]);
  const Dict& dict = *self.dict();
  if (by == "key" && !case_sensitive && !flag(given[2]) &&
      std::all_of(dict.all().begin(), dict.all().end(),
                  [](const Entry& entry) { return entry.key.is_string() && entry.key.text().ascii(); })) {
    return sort_plain_keys(run, dict);
  }
  std::vector<Keyed> items;
  for (const Entry& entry : dict.all()) {
    const Value& key = by == "key" ? entry.key : entry.value;
    items.push_back({case_sensitive ? key : without_case(run.heap(), key),
                     make_pair(run.heap(), entry.key, entry.value)});
  }
  return Value::list(sorted(run, items, flag(given[2])));
}

Value filter_unique(Interpreter& run, const Value& self, const Bound& given) {
  auto* seen = run.heap().make<Dict>();
  Growing<Value> items(run.heap());
  Walk walk(run.heap(), self);
  for (Value item; walk.next(item);) {
    run.heap().charge();
    const Value key = key_of(run, item, given[1], flag(given[0]));
    if (find(run.heap(), *seen, key) != nullptr) continue;
    set(run.heap(), *seen, key, Value::none());
    items.push(item);
  }
  return make_iterator(run.heap(), {items.data(), items.size()});
}

Value filter_groupby(Interpreter& run, const Value& self, const Bound& given) {
  const bool case_sensitive = flag(given[2]);
  std::vector<Keyed> items;
  Walk walk(run.heap(), self);
  for (Value item; walk.next(item);) {
    run.heap().charge();
    items.push_back({key_of(run, item, given[0], case_sensitive, given[1]), item});
  }
  sorted(run, items, false);
  Growing<Value> groups(run.heap());
  for (size_t at = 0; at < items.size();) {
    Growing<Value> group(run.heap());
    const Value key = items[at].key;
    const Value first = items[at].item;
    for (; at < items.size() && equal(run.heap(), items[at].key, key); ++at) group.push(items[at].item);
    // A value that equals not even itself (nan) is a group of its own.
    if (group.size() == 0) group.push(items[at++].item);
    const Value shown = case_sensitive ? key : reach(run, first, given[0], given[1]);
    groups.push(make_pair(run.heap(), shown, Value::list({group.data(), group.size()})).as_group());
  }
  return Value::list({groups.data(), groups.size()});
}

Value extreme(Interpreter& run, const Value& self, const Bound& given, Order order) {
  Walk walk(run.heap(), self);
  Value best;
  if (!walk.next(best)) return undefined_hint(run.heap(), "No aggregated item, sequence was empty.");
  Value best_key = key_of(run, best, given[1], flag(given[0]));
  for (Value item; walk.next(item);) {
    run.heap().charge();
    const Value key = key_of(run, item, given[1], flag(given[0]));
    if (!ordered(run.heap(), order, key, best_key)) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value filter_min(Interpreter& run, const Value& self, const Bound& given) {
  return extreme(run, self, given, Order::kLess);
}
Value filter_max(Interpreter& run, const Value& self, const Bound& given) {
  return extreme(run, self, given, Order::kGreater);
}

Value filter_sum(Interpreter& run, const Value& self, const Bound& given) {
  Value sum = given.has(1) ? given[1] : Value::of(int64_t{0});
  if (sum.is_string()) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  Walk walk(run.heap(), self);
  for (Value item; walk.next(item);) {
    run.heap().charge();
    sum = calculate(run.heap(), Operator::kAdd, sum, reach(run, item, given[0]));
  }
  return sum;
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"sort", filter_sort, "reverse,case_sensitive,attribute"},
    {"dictsort", filter_dictsort, "case_sensitive,by,reverse"},
    {.name = "unique", .function = filter_unique, .parameters = "case_sensitive,attribute", .is_lazy = true},
    {"groupby", filter_groupby, "attribute,default,case_sensitive", 1},
    {"min", filter_min, "case_sensitive,attribute"},
    {"max", filter_max, "case_sensitive,attribute"},
    {"sum", filter_sum, "attribute,start"},
});

}  // namespace

std::span<const Builtin> sorting_filters() {
  return kFilters;
}

}  // namespace slip::text::jinja
