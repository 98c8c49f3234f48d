// Filters on lists, dicts and whatever can be walked.
#include <algorithm>
#include <array>

#include "text/jinja/builtin_help.h"

namespace slip::text::jinja {
namespace {

Value filter_default(Interpreter&, const Value& self, const Bound& given) {
  const bool absent = self.is_undefined() || (flag(given[1]) && !truthy(self));
  if (!absent) return self;
  return given.has(0) ? given[0] : Value::of(empty_text());
}

Value filter_length(Interpreter& run, const Value& self, const Bound&) {
  if (self.is_string() && !self.text().ascii()) run.heap().charge_bytes(self.text().size);
  const int64_t length = length_of(self);
  if (length < 0) type_error("object of type '{}' has no len()", type_name(self));
  return Value::of(length);
}

Value filter_first(Interpreter& run, const Value& self, const Bound&) {
  Walk walk(run.heap(), self);
  Value item;
  return walk.next(item) ? item : undefined_hint(run.heap(), "No first item, sequence was empty.");
}

Value filter_last(Interpreter& run, const Value& self, const Bound&) {
  if (self.is(Kind::kIterator) || !is_iterable(self)) {
    type_error("'{}' object is not reversible", type_name(self));
  }
  if (self.is_string() && !self.text().empty()) {
    return run.item(self, Value::of(int64_t{-1}));
  }
  const auto items = to_items(run.heap(), self);
  return items.empty() ? undefined_hint(run.heap(), "No last item, sequence was empty.") : items.back();
}

Value filter_list(Interpreter& run, const Value& self, const Bound&) {
  return Value::list(to_items(run.heap(), self));
}

Value filter_items(Interpreter& run, const Value& self, const Bound&) {
  if (self.is_undefined()) return make_iterator(run.heap(), {});
  if (!self.is(Kind::kDict)) type_error("Can only get item pairs from a mapping.");
  Growing<Value> items(run.heap());
  for (const Entry& entry : self.dict()->all()) {
    run.heap().charge();
    items.push(make_pair(run.heap(), entry.key, entry.value));
  }
  return make_iterator(run.heap(), {items.data(), items.size()});
}

Value filter_join(Interpreter& run, const Value& self, const Bound& given) {
  Heap& heap = run.heap();
  const auto items = to_items(heap, self);
  std::vector<Text> texts;
  Text between = given.has(0) ? soft_text(run, given[0]) : empty_text();
  bool safe = between.markup;
  for (const Value& item : items) {
    heap.charge();
    texts.push_back(soft_text(run, reach(run, item, given[1])));
    safe = safe || texts.back().markup;
  }
  safe = safe && run.autoescape();
  if (safe) between = escape_html(heap, between);
  TextBuilder out(heap);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.append(between);
    out.append(safe ? escape_html(heap, texts[i]) : texts[i]);
    heap.charge_bytes(texts[i].size + between.size);
  }
  return text_value(out.finish(), safe);
}

Value filter_reverse(Interpreter& run, const Value& self, const Bound&) {
  const Value backwards = Value::of(int64_t{-1});
  if (self.is_string()) return slice(run.heap(), self, Value::none(), Value::none(), backwards);
  if (!is_iterable(self)) raise(Fault::kFilterArgumentError, "argument must be iterable");
  const Value list = Value::list(to_items(run.heap(), self));
  return make_iterator(run.heap(), slice(run.heap(), list, Value::none(), Value::none(), backwards).items());
}

std::span<const Value> with_fill(Heap& heap, std::span<const Value> items, const Value& fill, size_t count) {
  if (count == 0 || fill.is_none() || fill.is_missing()) return items;
  Growing<Value> all(heap);
  for (const Value& item : items) all.push(item);
  for (size_t i = 0; i < count; ++i) {
    heap.charge();
    all.push(fill);
  }
  return {all.data(), all.size()};
}

Value filter_batch(Interpreter& run, const Value& self, const Bound& given) {
  const auto items = to_items(run.heap(), self);
  const int64_t size = need_integer(given[0], 0);
  Growing<Value> batches(run.heap());
  if (items.empty()) return make_iterator(run.heap(), {});
  const size_t count = size <= 0 ? items.size() : std::min(static_cast<size_t>(size), items.size());
  for (size_t at = 0; at < items.size(); at += count) {
    run.heap().charge();
    const auto batch = items.subspan(at, std::min(count, items.size() - at));
    const size_t missing = size <= 0 ? 0 : static_cast<size_t>(size) - batch.size();
    batches.push(Value::list(with_fill(run.heap(), batch, given[1], missing)));
  }
  return make_iterator(run.heap(), {batches.data(), batches.size()});
}

Value filter_slice(Interpreter& run, const Value& self, const Bound& given) {
  const auto items = to_items(run.heap(), self);
  const int64_t count = need_integer(given[0], 0);
  if (count == 0) raise(Fault::kZeroDivisionError, "integer division or modulo by zero");
  Growing<Value> slices(run.heap());
  const auto slice_count = static_cast<size_t>(std::max<int64_t>(count, 0));
  size_t at = 0;
  for (size_t i = 0; i < slice_count; ++i) {
    run.heap().charge();
    const bool has_extra = i < items.size() % slice_count;
    const size_t size = items.size() / slice_count + (has_extra ? 1 : 0);
    slices.push(Value::list(with_fill(run.heap(), items.subspan(at, size), given[1], has_extra ? 0 : 1)));
    at += size;
  }
  return make_iterator(run.heap(), {slices.data(), slices.size()});
}

/// As getattr() in Python: a key of a dict is no attribute.
Value filter_attr(Interpreter& run, const Value& self, const Bound& given) {
  const Value name = Value::of(need_text(given[0]));
  const bool is_key = self.is(Kind::kDict) && find_method(Kind::kDict, name.view()) == nullptr &&
                      !name.view().starts_with("__");
  if (!is_key) return run.attribute(self, name);
  return undefined_hint(run.heap(), "a dict has no such attribute");
}

std::string indent_of(const Value& indent) {
  constexpr int64_t kWidest = 1000;
  if (indent.is_string()) return std::string(indent.view());
  const int64_t width = need_integer(indent, 0);
  if (width > kWidest) raise(Fault::kMemoryError, "an indent of {} is too wide", width);
  return std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
}

Value filter_tojson(Interpreter& run, const Value& self, const Bound& given) {
  JsonStyle style;
  style.ascii = flag(given[0]);
  if (given.has(1) && !given[1].is_none()) {
    style.indent = indent_of(given[1]);
    style.item_separator = ",";
  }
  if (given.has(2) && !given[2].is_none()) {
    const auto separators = to_items(run.heap(), given[2]);
    if (separators.size() != 2) raise(Fault::kValueError, "not enough values to unpack (expected 2)");
    style.item_separator = need_text(separators[0]).view();
    style.key_separator = need_text(separators[1]).view();
  }
  style.sort_keys = flag(given[3]);
  TextBuilder out(run.heap());
  print_json(run.heap(), self, style, out);
  return Value::of(out.finish());
}

Value sorted_by_key(Heap& heap, const Value& value) {
  const Depth depth(heap);
  heap.charge();
  if (value.is_sequence()) {
    Growing<Value> items(heap);
    for (const Value& item : value.items()) items.push(sorted_by_key(heap, item));
    return Value::list({items.data(), items.size()}, value.kind());
  }
  if (!value.is(Kind::kDict)) return value;
  std::vector<Entry> entries(value.dict()->all().begin(), value.dict()->all().end());
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return a.key.is_string() && b.key.is_string() && a.key.view() < b.key.view();
  });
  auto* dict = heap.make<Dict>();
  for (const Entry& entry : entries) set(heap, *dict, entry.key, sorted_by_key(heap, entry.value));
  return Value::of(dict);
}

Value filter_pprint(Interpreter& run, const Value& self, const Bound&) {
  constexpr uint32_t kLine = 80;
  const Text text = repr(run.heap(), sorted_by_key(run.heap(), self));
  if (text.size >= kLine && !self.is_number()) {
    raise(Fault::kNotImplementedError, "pprint of more than a line is not supported");
  }
  return Value::of(text);
}

Value filter_random(Interpreter&, const Value&, const Bound&) {
  raise(Fault::kNotImplementedError,
        "the filter 'random' is not supported: a prompt must not depend on chance");
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"default", filter_default, "default_value,boolean"},
    {"d", filter_default, "default_value,boolean"},
    {"length", filter_length},
    {"count", filter_length},
    {"first", filter_first},
    {"last", filter_last},
    {"list", filter_list},
    {.name = "items", .function = filter_items, .is_lazy = true},
    {"join", filter_join, "d,attribute"},
    {"reverse", filter_reverse},
    {.name = "batch",
     .function = filter_batch,
     .parameters = "linecount,fill_with",
     .required = 1,
     .is_lazy = true},
    {.name = "slice",
     .function = filter_slice,
     .parameters = "slices,fill_with",
     .required = 1,
     .is_lazy = true},
    {"attr", filter_attr, "name", 1},
    {"tojson", filter_tojson, "ensure_ascii,indent,separators,sort_keys"},
    {"pprint", filter_pprint},
    {"random", filter_random},
});

}  // namespace

std::span<const Builtin> list_filters() {
  return kFilters;
}

}  // namespace slip::text::jinja
