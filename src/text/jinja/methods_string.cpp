// Methods of strings that give new strings, or lists of them.
#include <algorithm>
#include <array>

#include "text/jinja/builtin_help.h"
#include "text/jinja/formatting.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {
namespace {

using Given = const Bound&;

template <Text (*kChange)(Heap&, const Text&)>
Value changed(Interpreter& run, const Value& self, Given) {
  return Value::of(kChange(run.heap(), self.text()));
}

template <int kSides>
Value stripped(Interpreter& run, const Value& self, Given given) {
  return Value::of(strip(run.heap(), self.text(), given[0], kSides));
}

template <Justify kHow>
Value justified(Interpreter& run, const Value& self, Given given) {
  return Value::of(justify(run.heap(), self.text(), need_integer(given[0], 0), given[1], kHow));
}

template <bool kFromRight>
Value split(Interpreter& run, const Value& self, Given given) {
  const int64_t most = need_integer(given[1], -1);
  if (!given.has(0) || given[0].is_none()) {
    return list_of(run.heap(), split_words(run.heap(), self.text(), most, kFromRight));
  }
  return list_of(run.heap(), split_at(run.heap(), self.text(), need_text(given[0]).view(), most, kFromRight));
}

Value splitlines(Interpreter& run, const Value& self, Given given) {
  return list_of(run.heap(), split_lines(run.heap(), self.text(), flag(given[0])));
}

template <bool kFromRight>
Value partition(Interpreter& run, const Value& self, Given given) {
  const Text text = self.text();
  const Text separator = need_text(given[0]);
  const std::vector<Text> halves = split_at(run.heap(), text, separator.view(), 1, kFromRight);
  Value* parts = run.heap().array<Value>(3);
  const Text none = text.part(0, 0);
  if (halves.size() == 2) {
    parts[0] = Value::of(halves[0]);
    parts[1] = Value::of(text.part(halves[0].size, separator.size));
    parts[2] = Value::of(halves[1]);
  } else {
    parts[0] = Value::of(kFromRight ? none : text);
    parts[1] = Value::of(none);
    parts[2] = Value::of(kFromRight ? text : none);
  }
  return Value::tuple({parts, 3});
}

Value replaced(Interpreter& run, const Value& self, Given given) {
  return Value::of(
      replace(run.heap(), self.text(), need_text(given[0]), need_text(given[1]), need_integer(given[2], -1)));
}

Value removeprefix(Interpreter&, const Value& self, Given given) {
  const Text text = self.text();
  const Text prefix = need_text(given[0]);
  if (!text.view().starts_with(prefix.view())) return self;
  return Value::of(text.part(prefix.size, text.size - prefix.size));
}

Value removesuffix(Interpreter&, const Value& self, Given given) {
  const Text text = self.text();
  const Text suffix = need_text(given[0]);
  if (!text.view().ends_with(suffix.view())) return self;
  return Value::of(text.part(0, text.size - suffix.size));
}

Value join(Interpreter& run, const Value& self, Given given) {
  Heap& heap = run.heap();
  const auto items = to_items(heap, given[0]);
  const bool safe = self.text().markup;
  TextBuilder out(heap);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      type_error("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
    heap.charge_bytes(items[i].text().size + self.text().size);
    if (i > 0) out.append(self.text());
    out.append(safe ? escape_html(heap, items[i].text()) : items[i].text());
  }
  return text_value(out.finish(), safe);
}

Value zfill(Interpreter& run, const Value& self, Given given) {
  const Text text = self.text();
  const int64_t missing = need_integer(given[0], 0) - static_cast<int64_t>(count_characters(text));
  if (missing <= 0) return self;
  const bool sign = text.view().starts_with('-') || text.view().starts_with('+');
  TextBuilder out(run.heap());
  if (sign) out.append(text.part(0, 1));
  out.append_times("0", static_cast<size_t>(missing), Origin::kTemplate);
  out.append(text.part(sign ? 1 : 0, text.size - (sign ? 1 : 0)));
  return Value::of(out.finish());
}

Value expandtabs(Interpreter& run, const Value& self, Given given) {
  const Text text = self.text();
  const int64_t size = need_integer(given[0], 8);
  const std::string_view view = text.view();
  TextBuilder out(run.heap(), view.size());
  int64_t column = 0;
  for (size_t at = 0; at < view.size();) {
    run.heap().charge();
    const Character character = character_at(view, at);
    if (character.code == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.append_times(" ", static_cast<size_t>(spaces), text.origin_at(at));
      column += spaces;
    } else {
      out.append(text.part(at, character.size));
      column = character.code == '\n' || character.code == '\r' ? 0 : column + 1;
    }
    at += character.size;
  }
  return Value::of(out.finish());
}

Value format(Interpreter& run, const Value& self, Given given) {
  return Value::of(format_braces(run, self.text(), *given.all));
}

Value format_map(Interpreter& run, const Value& self, Given given) {
  if (!given[0].is(Kind::kDict)) type_error("format_map() needs a mapping, not {}", type_name(given[0]));
  Growing<Entry> entries(run.heap());
  for (const Entry& entry : given[0].dict()->all()) {
    if (entry.key.is_string()) entries.push(entry);
  }
  return Value::of(format_braces(run, self.text(), {{}, {entries.data(), entries.size()}}));
}

/// table maps code points to code points, strings or None.
Value translate(Interpreter& run, const Value& self, Given given) {
  if (!given[0].is(Kind::kDict)) type_error("'{}' object is not subscriptable", type_name(given[0]));
  const Text text = self.text();
  const std::string_view view = text.view();
  TextBuilder out(run.heap(), view.size());
  for (size_t at = 0; at < view.size();) {
    run.heap().charge();
    const Character character = character_at(view, at);
    const Value* to = find(run.heap(), *given[0].dict(), Value::of(static_cast<int64_t>(character.code)));
    if (to == nullptr) {
      out.append(text.part(at, character.size));
    } else if (to->is_string()) {
      out.append(to->text());
    } else if (to->is_integer()) {
      if (to->integer() < 0 || to->integer() > 0x10FFFF)
        raise(Fault::kValueError, "character mapping must be in range(0x110000)");
      out.append_character(static_cast<char32_t>(to->integer()), text.origin_at(at));
    } else if (!to->is_none()) {
      type_error("character mapping must return integer, None or str");
    }
    at += character.size;
  }
  return Value::of(out.finish());
}

Value unsupported(Interpreter&, const Value&, Given) {
  raise(Fault::kNotImplementedError, "this method of str is not supported");
}

constexpr auto kMethods = std::to_array<Builtin>({
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"casefold", changed<to_casefold>},
    {"title", changed<to_title>},
    {"capitalize", changed<capitalise>},
    {"swapcase", changed<swap_case>},
    {"strip", stripped<3>, "/chars"},
    {"lstrip", stripped<1>, "/chars"},
    {"rstrip", stripped<2>, "/chars"},
    {"center", justified<Justify::kCentre>, "/width,fillchar", 1},
    {"ljust", justified<Justify::kLeft>, "/width,fillchar", 1},
    {"rjust", justified<Justify::kRight>, "/width,fillchar", 1},
    {"zfill", zfill, "/width", 1},
    {"expandtabs", expandtabs, "tabsize"},
    {"split", split<false>, "sep,maxsplit"},
    {"rsplit", split<true>, "sep,maxsplit"},
    {"splitlines", splitlines, "keepends"},
    {"partition", partition<false>, "/sep", 1},
    {"rpartition", partition<true>, "/sep", 1},
    {"replace", replaced, "/old,new,count", 2},
    {"removeprefix", removeprefix, "/prefix", 1},
    {"removesuffix", removesuffix, "/suffix", 1},
    {"join", join, "/iterable", 1},
    {"format", format, "*"},
    {"format_map", format_map, "/mapping", 1},
    {"translate", translate, "/table", 1},
    {"encode", unsupported, "*"},
    {"maketrans", unsupported, "*"},
});

}  // namespace

std::span<const Builtin> string_methods() {
  return kMethods;
}

}  // namespace slip::text::jinja
