// Reaching into values: subject.name, subject[key], slices and `in`, with the sandbox's refusals.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

Value undefined_for(Heap& heap, Undefined::Why why, const Value& owner, std::string_view name) {
  auto* undefined = heap.make<Undefined>();
  *undefined = {why, owner.kind(), name};
  return Value::of(undefined);
}

bool is_class(const Value& value) {
  static constexpr std::string_view kClasses[] = {"dict", "namespace", "cycler", "joiner"};
  return value.is(Kind::kFunction) &&
         std::find(std::begin(kClasses), std::end(kClasses), value.as<Builtin>()->name) != std::end(kClasses);
}

/// What Python keeps in every object and the sandbox hides.
bool is_hidden(const Value& subject, std::string_view name) {
  if (subject.is_undefined()) {  // fails for all names but those it has itself
    static constexpr std::string_view kOwn[] = {"__class__", "__init__", "__doc__",  "__module__",
                                                "__len__",   "__str__",  "__repr__", "__iter__",
                                                "__eq__",    "__hash__", "__bool__", "__call__"};
    return std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
  }
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) return true;
  if (is_class(subject)) return name == "mro";
  return subject.is(Kind::kIterator) && (name == "gi_frame" || name == "gi_code");
}

Value macro_field(Heap& heap, const MacroDefinition& macro, std::string_view name) {
  if (name == "name") return macro.name.empty() ? Value::none() : make_text_value(heap, macro.name);
  if (name == "arguments") {
    Growing<Value> names(heap);
    for (const auto& parameter : macro.parameters) names.push(parameter.name);
    return Value::tuple({names.data(), names.size()});
  }
  if (name == "catch_kwargs") return Value::of(macro.kwargs_slot != kNoSlot);
  if (name == "catch_varargs") return Value::of(macro.varargs_slot != kNoSlot);
  if (name == "caller") return Value::of(macro.caller_slot != kNoSlot);
  return {};
}

Value number_field(const Value& number, std::string_view name) {
  const bool whole = number.is_integer();
  if (name == "real" || (name == "numerator" && whole)) {
    return whole ? Value::of(number.integer(), number.origin()) : number;
  }
  if (name == "imag") return whole ? Value::of(int64_t{0}) : Value::of(0.0);
  if (name == "denominator" && whole) return Value::of(int64_t{1});
  return {};
}

LoopField loop_field(std::string_view name) {
  static constexpr std::pair<std::string_view, LoopField> kFields[] = {
      {"index", LoopField::kIndex},       {"index0", LoopField::kIndex0},
      {"revindex", LoopField::kRevindex}, {"revindex0", LoopField::kRevindex0},
      {"first", LoopField::kFirst},       {"last", LoopField::kLast},
      {"length", LoopField::kLength},     {"previtem", LoopField::kPrevitem},
      {"nextitem", LoopField::kNextitem}, {"depth", LoopField::kDepth},
      {"depth0", LoopField::kDepth0}};
  for (const auto& [known, field] : kFields) {
    if (known == name) return field;
  }
  return LoopField::kNone;
}

/// An attribute that is no method; missing when there is none.
Value field_of(Heap& heap, const Parsed& tree, const Value& subject, std::string_view name) {
  switch (subject.kind()) {
    case Kind::kNamespace: {
      const Value* found = find(*subject.dict(), name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop: {
      const LoopField field = loop_field(name);
      return field == LoopField::kNone ? Value() : subject.as<Loop>()->field(field);
    }
    case Kind::kMacro: return macro_field(heap, *subject.as<Macro>()->definition, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat: return number_field(subject, name);
    case Kind::kCycler: {
      const auto& cycler = *subject.as<Cycler>();
      return name == "current" ? cycler.items[cycler.position] : Value();
    }
    case Kind::kTuple:
      if (!subject.is_group()) return {};
      return name == "grouper" ? subject.items()[0] : name == "list" ? subject.items()[1] : Value();
    case Kind::kSelf:
      for (const Block* block : tree.blocks) {
        if (block->name == name) return Value::pointing(Kind::kBlock, block);
      }
      return {};
    default: return {};
  }
}

/// A whole number for an index: an int, or a bool as in Python.
bool index_in(const Value& key, int64_t count, int64_t& index) {
  if (!key.is_integer()) return false;
  index = key.integer();
  if (index < 0) index += count;
  return index >= 0 && index < count;
}

/// subject[key] as Python does it; missing when that raises.
Value element(Heap& heap, const Value& subject, const Value& key) {
  int64_t index = 0;
  switch (subject.kind()) {
    case Kind::kDict: {
      if (key.is(Kind::kList) || key.is(Kind::kDict)) return {};
      const Value* found = find(heap, *subject.dict(), key);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kList:
    case Kind::kTuple:
      return index_in(key, static_cast<int64_t>(subject.items().size()), index)
                 ? subject.items()[static_cast<size_t>(index)]
                 : Value();
    case Kind::kString: {
      if (!key.is_integer()) return {};
      const Text text = subject.text();
      heap.charge_bytes(text.ascii() ? 0 : text.size);
      if (!index_in(key, static_cast<int64_t>(count_characters(text)), index)) return {};
      const size_t at = byte_of_character(text, static_cast<size_t>(index));
      return Value::of(text.part(at, character_at(text.view(), at).size));
    }
    case Kind::kRange: {
      const auto& range = *subject.as<Range>();
      return index_in(key, range.count, index) ? range.at(index) : Value();
    }
    default: return {};
  }
}

struct SliceBounds {
  int64_t start;
  int64_t step;
  int64_t count;
};

/// As Python's slice.indices().
SliceBounds bounds_of(int64_t size, const Value& from, const Value& to, const Value& step_value) {
  const auto index = [](const Value& value) {
    if (!value.is_integer()) type_error("slice indices must be integers or None or have an __index__ method");
    return value.integer();
  };
  const int64_t step = step_value.is_none() ? 1 : index(step_value);
  if (step == 0) raise(Fault::kValueError, "slice step cannot be zero");
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? size : size - 1;
  const auto clamped = [&](const Value& value, int64_t standard) {
    if (value.is_none()) return standard;
    int64_t at = index(value);
    if (at < 0) at = at < -size ? -1 : at + size;
    return std::clamp(at, lowest, highest);
  };
  const int64_t start = clamped(from, step > 0 ? lowest : highest);
  const int64_t end = clamped(to, step > 0 ? highest : lowest);
  const int64_t distance = step > 0 ? end - start : start - end;
  // Neither can overflow: the distance is that of a text or a list.
  const int64_t stride = step > 0 ? step : (step == INT64_MIN ? INT64_MAX : -step);
  return {start, step, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

Value slice_text(Heap& heap, const Text& text, const SliceBounds& bounds) {
  if (bounds.count == 0) return Value::of(text.part(0, 0));
  heap.charge_bytes(text.size);
  if (bounds.step == 1) {
    const size_t begin = byte_of_character(text, static_cast<size_t>(bounds.start));
    const Text rest = text.part(begin, text.size - begin);
    return Value::of(rest.part(0, byte_of_character(rest, static_cast<size_t>(bounds.count))));
  }
  std::vector<uint32_t> starts;
  const std::string_view bytes = text.view();
  heap.charge(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += character_at(bytes, at).size) {
    starts.push_back(static_cast<uint32_t>(at));
  }
  TextBuilder out(heap, static_cast<size_t>(bounds.count));
  for (int64_t i = 0; i < bounds.count; ++i) {
    const size_t at = starts[static_cast<size_t>(bounds.start + i * bounds.step)];
    out.append(text.part(at, character_at(bytes, at).size));
  }
  Text made = out.finish();
  made.markup = text.markup;
  return Value::of(made);
}

}  // namespace

Value Interpreter::attribute(const Value& subject, const Value& name_value) {
  using Why = Undefined::Why;
  const std::string_view name = name_value.view();
  if (subject.is_undefined() && !is_hidden(subject, name)) demand_defined(subject);
  if (const Value field = field_of(heap_, tree_, subject, name); !field.is_missing()) return field;
  if (is_hidden(subject, name)) return undefined_for(heap_, Why::kUnsafe, subject, name);
  if (const Builtin* method = find_method(subject.kind(), name)) {
    if (method->is_unsafe) return undefined_for(heap_, Why::kUnsafe, subject, name);
    auto* bound = heap_.make<Method>();
    *bound = {method, subject};
    return Value::pointing(Kind::kMethod, bound);
  }
  if (subject.is(Kind::kDict)) {
    if (const Value* found = find(*subject.dict(), name)) return *found;
  }
  return undefined_for(heap_, Why::kAttribute, subject, name);
}

Value Interpreter::item(const Value& subject, const Value& key) {
  demand_defined(subject);
  if (const Value found = element(heap_, subject, key); !found.is_missing()) return found;
  if (key.is_string()) return attribute(subject, key);
  return undefined_for(heap_, Undefined::Why::kElement, subject, repr(heap_, key).view());
}

Value slice(Heap& heap, const Value& value, const Value& from, const Value& to, const Value& step) {
  demand_defined(value);
  switch (value.kind()) {
    case Kind::kString: {
      heap.charge_bytes(value.text().ascii() ? 0 : value.text().size);
      return slice_text(heap, value.text(), bounds_of(length_of(value), from, to, step));
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto items = value.items();
      const SliceBounds bounds = bounds_of(static_cast<int64_t>(items.size()), from, to, step);
      if (bounds.count == 0) return Value::list({}, value.kind());
      if (bounds.step == 1) {
        return Value::list(
            items.subspan(static_cast<size_t>(bounds.start), static_cast<size_t>(bounds.count)),
            value.kind());
      }
      heap.charge(static_cast<uint64_t>(bounds.count) / 4);
      Value* made = heap.array<Value>(static_cast<size_t>(bounds.count));
      for (int64_t i = 0; i < bounds.count; ++i) {
        made[i] = items[static_cast<size_t>(bounds.start + i * bounds.step)];
      }
      return Value::list({made, static_cast<size_t>(bounds.count)}, value.kind());
    }
    case Kind::kRange: {
      const auto& range = *value.as<Range>();
      const SliceBounds bounds = bounds_of(range.count, from, to, step);
      auto* made = heap.make<Range>();
      *made = range;
      made->start = range.start + bounds.start * range.step;
      made->step = range.step * bounds.step;
      made->count = bounds.count;
      const auto end = [&](const Value& bound, int64_t standard) {
        if (bound.is_none()) return standard;
        const int64_t at = bound.integer() < 0 ? bound.integer() + range.count : bound.integer();
        return std::clamp<int64_t>(at, bounds.step > 0 ? 0 : -1, range.count);
      };
      made->stop = range.start + end(to, bounds.step > 0 ? range.count : -1) * range.step;
      return Value::pointing(Kind::kRange, made);
    }
    case Kind::kDict: type_error("unhashable type: 'slice'");
    default: type_error("'{}' object is not subscriptable", type_name(value));
  }
}

bool contains(Heap& heap, const Value& haystack, const Value& needle) {
  switch (haystack.kind()) {
    case Kind::kString:
      if (!needle.is_string()) {
        type_error("'in <string>' requires string as left operand, not {}", type_name(needle));
      }
      heap.charge_bytes(haystack.text().size);
      return haystack.view().find(needle.view()) != std::string_view::npos;
    case Kind::kDict: return find(heap, *haystack.dict(), needle) != nullptr;
    case Kind::kRange: {
      const auto& range = *haystack.as<Range>();
      const double number = needle.is_number() ? needle.real() : 0.5;
      if (number != static_cast<double>(static_cast<int64_t>(number))) return false;
      const int64_t distance = static_cast<int64_t>(number) - range.start;
      return distance % range.step == 0 && distance / range.step >= 0 && distance / range.step < range.count;
    }
    default: break;
  }
  if (!is_iterable(haystack)) type_error("argument of type '{}' is not iterable", type_name(haystack));
  Walk walk(heap, haystack);
  for (Value item; walk.next(item);) {
    heap.charge();
    if (equal(heap, item, needle)) return true;
  }
  return false;
}

}  // namespace slip::text::jinja
