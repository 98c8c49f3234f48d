#include "text/jinja/print.h"

#include <cmath>

#include "text/jinja/callables.h"
#include "text/jinja/dict.h"
#include "text/jinja/failure.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {
namespace {

constexpr Origin kOurs = Origin::kTemplate;

void print_items(Heap& heap, std::span<const Value> items, TextBuilder& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ", kOurs);
    print_repr(heap, items[i], out);
  }
}

void print_entries(Heap& heap, const Dict& dict, TextBuilder& out) {
  out.append("{", kOurs);
  for (uint32_t i = 0; i < dict.size; ++i) {
    if (i > 0) out.append(", ", kOurs);
    print_repr(heap, dict.entries[i].key, out);
    out.append(": ", kOurs);
    print_repr(heap, dict.entries[i].value, out);
  }
  out.append("}", kOurs);
}

void print_view(Heap& heap, const DictView& view, TextBuilder& out) {
  using Part = DictView::Part;
  out.append(view.part == Part::kKeys     ? "dict_keys(["
             : view.part == Part::kValues ? "dict_values(["
                                          : "dict_items([",
             kOurs);
  for (uint32_t i = 0; i < view.dict->size; ++i) {
    const Entry& entry = view.dict->entries[i];
    if (i > 0) out.append(", ", kOurs);
    if (view.part == Part::kItems) out.append("(", kOurs);
    if (view.part != Part::kValues) print_repr(heap, entry.key, out);
    if (view.part == Part::kItems) out.append(", ", kOurs);
    if (view.part != Part::kKeys) print_repr(heap, entry.value, out);
    if (view.part == Part::kItems) out.append(")", kOurs);
  }
  out.append("])", kOurs);
}

void print_range(const Range& range, TextBuilder& out) {
  out.append(fmt::format("range({}, {}", range.start, range.stop), range.origin);
  if (range.step != 1) out.append(fmt::format(", {}", range.step), range.origin);
  out.append(")", kOurs);
}

void print_quoted_character(char32_t code, char quote, Origin origin, std::string_view bytes,
                            TextBuilder& out) {
  const auto escape = [&](std::string_view text) { out.append(text, origin); };
  if (code == static_cast<char32_t>(quote) || code == '\\') {
    const char escaped[] = {'\\', static_cast<char>(code)};
    return escape({escaped, 2});
  }
  if (code == '\n') return escape("\\n");
  if (code == '\r') return escape("\\r");
  if (code == '\t') return escape("\\t");
  if (is_printable(code)) return out.append(bytes, origin);
  if (code < 0x100) return escape(fmt::format("\\x{:02x}", static_cast<uint32_t>(code)));
  if (code < 0x10000) return escape(fmt::format("\\u{:04x}", static_cast<uint32_t>(code)));
  escape(fmt::format("\\U{:08x}", static_cast<uint32_t>(code)));
}

void print_quoted(Heap& heap, const Text& text, TextBuilder& out) {
  heap.charge_bytes(text.size);
  const bool single = text.view().find('\'') != std::string_view::npos;
  const bool twofold = text.view().find('"') != std::string_view::npos;
  const char quote = single && !twofold ? '"' : '\'';
  if (text.markup) out.append("Markup(", kOurs);
  out.append({&quote, 1}, kOurs);
  for_each_run(text, [&](std::string_view bytes, Origin origin) {
    for (size_t at = 0; at < bytes.size();) {
      const Character character = character_at(bytes, at);
      print_quoted_character(character.code, quote, origin, bytes.substr(at, character.size), out);
      at += character.size;
    }
  });
  out.append({&quote, 1}, kOurs);
  if (text.markup) out.append(")", kOurs);
}

void print_thing(Heap& heap, const Value& value, TextBuilder& out) {
  switch (value.kind()) {
    case Kind::kView: return print_view(heap, *value.as<DictView>(), out);
    case Kind::kRange: return print_range(*value.as<Range>(), out);
    case Kind::kNamespace:
      out.append("<Namespace ", kOurs);
      print_entries(heap, *value.dict(), out);
      return out.append(">", kOurs);
    case Kind::kSelf: return out.append("<TemplateReference None>", kOurs);
    case Kind::kMacro: {
      const std::string_view name = name_of(*value.as<Macro>());
      return out.append(name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name), kOurs);
    }
    default:
      // Python prints an address, which differs from run to run.
      raise(Fault::kNotImplementedError, "a {} cannot be printed", type_name(value));
  }
}

void print_any(Heap& heap, const Value& value, bool quoted, TextBuilder& out) {
  switch (value.kind()) {
    case Kind::kMissing: return;
    case Kind::kUndefined: return quoted ? out.append("Undefined", kOurs) : void();
    case Kind::kNone: return out.append("None", kOurs);
    case Kind::kBool: return out.append(value.truth() ? "True" : "False", kOurs);
    case Kind::kInt: {
      const fmt::format_int digits(value.integer());
      return out.append({digits.data(), digits.size()}, value.origin());
    }
    case Kind::kFloat: return out.append(float_text(value.real()), value.origin());
    case Kind::kBigInt: return out.append(value.text());
    case Kind::kString: return quoted ? print_quoted(heap, value.text(), out) : out.append(value.text());
    default: break;
  }
  const Depth depth(heap);
  heap.charge(1 + (value.is_sequence() ? value.items().size() : 0));
  switch (value.kind()) {
    case Kind::kList:
      out.append("[", kOurs);
      print_items(heap, value.items(), out);
      return out.append("]", kOurs);
    case Kind::kTuple:
      out.append("(", kOurs);
      print_items(heap, value.items(), out);
      return out.append(value.items().size() == 1 ? ",)" : ")", kOurs);
    case Kind::kDict: heap.charge(value.dict()->size); return print_entries(heap, *value.dict(), out);
    default: print_thing(heap, value, out);
  }
}

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void print(Heap& heap, const Value& value, TextBuilder& out) {
  print_any(heap, value, false, out);
}

void print_repr(Heap& heap, const Value& value, TextBuilder& out) {
  print_any(heap, value, true, out);
}

Text to_text(Heap& heap, const Value& value) {
  if (value.is_string()) return value.text();
  TextBuilder out(heap);
  print(heap, value, out);
  return out.finish();
}

Text repr(Heap& heap, const Value& value) {
  TextBuilder out(heap);
  print_repr(heap, value, out);
  return out.finish();
}

Text escape_html(Heap& heap, const Text& text) {
  Text safe = text;
  if (!text.markup && text.view().find_first_of("&<>'\"") != std::string_view::npos) {
    TextBuilder out(heap, text.size);
    heap.charge_bytes(text.size);
    for_each_run(text, [&](std::string_view bytes, Origin origin) {
      for (const char& c : bytes) {
        switch (c) {
          case '&': out.append("&amp;", origin); break;
          case '<': out.append("&lt;", origin); break;
          case '>': out.append("&gt;", origin); break;
          case '\'': out.append("&#39;", origin); break;
          case '"': out.append("&#34;", origin); break;
          default: out.append({&c, 1}, origin);
        }
      }
    });
    safe = out.finish();
  }
  safe.markup = true;
  return safe;
}

}  // namespace slip::text::jinja
