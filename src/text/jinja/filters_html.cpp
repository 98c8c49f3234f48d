// Filters for HTML and addresses. Chat templates hardly use them, but `safe` and `e` do turn up.
#include <array>

#include "text/jinja/builtin_help.h"

namespace slip::text::jinja {
namespace {

Value filter_escape(Interpreter& run, const Value& self, const Bound&) {
  return Value::of(escape_html(run.heap(), soft_text(run, self)));
}

Value filter_forceescape(Interpreter& run, const Value& self, const Bound&) {
  Text text = soft_text(run, self);
  text.markup = false;
  return Value::of(escape_html(run.heap(), text));
}

Value filter_safe(Interpreter& run, const Value& self, const Bound&) {
  return text_value(soft_text(run, self), true);
}

/// Without what stands between `open` and `close`.
Text without(Heap& heap, const Text& text, std::string_view open, std::string_view close) {
  TextBuilder out(heap, text.size);
  const std::string_view view = text.view();
  size_t at = 0;
  while (true) {
    const size_t begin = view.find(open, at);
    const size_t end = begin == std::string_view::npos ? begin : view.find(close, begin + open.size());
    if (end == std::string_view::npos) break;
    out.append(text.part(at, begin - at));
    at = end + close.size();
  }
  out.append(text.part(at, view.size() - at));
  return out.finish();
}

Value filter_striptags(Interpreter& run, const Value& self, const Bound&) {
  Heap& heap = run.heap();
  Text text = without(heap, soft_text(run, self), "<!--", "-->");
  text = without(heap, text, "<", ">");
  TextBuilder out(heap, text.size);
  for (const Text& word : split_words(heap, text, -1, false)) {
    if (out.size() > 0) out.append(" ", Origin::kTemplate);
    out.append(word);
  }
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  Text plain = out.finish();
  for (const auto& [entity, character] : kEntities) {
    plain = replace(heap, plain, make_text(heap, entity), make_text(heap, character, Origin::kForeign), -1);
  }
  return Value::of(plain);
}

void quote(Interpreter& run, const Text& text, bool in_query, TextBuilder& out) {
  run.heap().charge_bytes(text.size);
  for_each_run(text, [&](std::string_view bytes, Origin origin) {
    for (const char& c : bytes) {
      const bool letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');
      if (letter || std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !in_query)) {
        out.append({&c, 1}, origin);
      } else if (c == ' ' && in_query) {
        out.append("+", origin);
      } else {
        out.append(fmt::format("%{:02X}", static_cast<uint8_t>(c)), origin);
      }
    }
  });
}

Value filter_urlencode(Interpreter& run, const Value& self, const Bound&) {
  Heap& heap = run.heap();
  TextBuilder out(heap);
  if (self.is_string() || !is_iterable(self)) {
    quote(run, soft_text(run, self), false, out);
    return Value::of(out.finish());
  }
  bool first = true;
  const auto pair = [&](const Value& key, const Value& value) {
    if (!first) out.append("&", Origin::kTemplate);
    quote(run, soft_text(run, key), true, out);
    out.append("=", Origin::kTemplate);
    quote(run, soft_text(run, value), true, out);
    first = false;
  };
  if (self.is(Kind::kDict)) {
    for (const Entry& entry : self.dict()->all()) pair(entry.key, entry.value);
    return Value::of(out.finish());
  }
  for (const Value& item : to_items(heap, self)) {
    const auto halves = to_items(heap, item);
    if (halves.size() != 2) raise(Fault::kValueError, "not a pair of a name and a value");
    pair(halves[0], halves[1]);
  }
  return Value::of(out.finish());
}

Value filter_xmlattr(Interpreter& run, const Value& self, const Bound& given) {
  if (!self.is(Kind::kDict))
    raise(Fault::kAttributeError, "'{}' object has no attribute 'items'", type_name(self));
  Heap& heap = run.heap();
  TextBuilder out(heap);
  const bool space = flag(given[0], true);
  bool first = true;
  for (const Entry& entry : self.dict()->all()) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    const Text key = soft_text(run, entry.key);
    if (key.view().find_first_of(" \t\n\f\r/>=") != std::string_view::npos) {
      raise(Fault::kValueError, "Invalid character in attribute name: '{}'", key.view());
    }
    if (!first || space) out.append(" ", Origin::kTemplate);
    out.append(escape_html(heap, key));
    out.append("=\"", Origin::kTemplate);
    out.append(escape_html(heap, soft_text(run, entry.value)));
    out.append("\"", Origin::kTemplate);
    first = false;
  }
  return text_value(out.finish(), run.autoescape());
}

Value filter_urlize(Interpreter&, const Value&, const Bound&) {
  raise(Fault::kNotImplementedError, "the filter 'urlize' is not supported");
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"safe", filter_safe},
    {"striptags", filter_striptags},
    {"urlencode", filter_urlencode},
    {"urlize", filter_urlize, "*"},
    {"xmlattr", filter_xmlattr, "autospace"},
});

}  // namespace

std::span<const Builtin> html_filters() {
  return kFilters;
}

}  // namespace slip::text::jinja
