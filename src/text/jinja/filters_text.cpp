// Filters that make texts of texts.
#include <algorithm>
#include <array>

#include "text/jinja/builtin_help.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {
namespace {

Value filter_upper(Interpreter& run, const Value& self, const Bound&) {
  return Value::of(to_upper(run.heap(), soft_text(run, self)));
}
Value filter_lower(Interpreter& run, const Value& self, const Bound&) {
  return Value::of(to_lower(run.heap(), soft_text(run, self)));
}
Value filter_capitalize(Interpreter& run, const Value& self, const Bound&) {
  return Value::of(capitalise(run.heap(), soft_text(run, self)));
}
Value filter_trim(Interpreter& run, const Value& self, const Bound& given) {
  return Value::of(strip(run.heap(), soft_text(run, self), given[0], 3));
}
Value filter_string(Interpreter& run, const Value& self, const Bound&) {
  return Value::of(soft_text(run, self));
}

/// Words begin behind white space and behind - ( { [ <, unlike those of str.title().
Value filter_title(Interpreter& run, const Value& self, const Bound&) {
  const Text text = soft_text(run, self);
  const std::string_view view = text.view();
  TextBuilder out(run.heap(), view.size());
  const auto separates = [](char32_t code) {
    return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
  };
  for (size_t at = 0; at < view.size();) {
    size_t end = at;
    const bool separators = separates(character_at(view, at).code);
    while (end < view.size() && separates(character_at(view, end).code) == separators) {
      end += character_at(view, end).size;
    }
    const size_t first = character_at(view, at).size;
    out.append(to_upper(run.heap(), text.part(at, first)));
    out.append(to_lower(run.heap(), text.part(at + first, end - at - first)));
    at = end;
  }
  return text_value(out.finish(), text.markup);
}

Value filter_replace(Interpreter& run, const Value& self, const Bound& given) {
  Text text = soft_text(run, self);
  Text old = soft_text(run, given[0]);
  Text fresh = soft_text(run, given[1]);
  const int64_t count = given.has(2) && !given[2].is_none() ? need_integer(given[2], -1) : -1;
  const bool safe = run.autoescape() && (text.markup || old.markup || fresh.markup);
  if (safe) {
    text = escape_html(run.heap(), text);
    if (text.markup) {
      old = escape_html(run.heap(), old);
      fresh = escape_html(run.heap(), fresh);
    }
  }
  return text_value(replace(run.heap(), text, old, fresh, count), safe);
}

Value filter_center(Interpreter& run, const Value& self, const Bound& given) {
  return Value::of(
      justify(run.heap(), soft_text(run, self), need_integer(given[0], 80), {}, Justify::kCentre));
}

Value filter_indent(Interpreter& run, const Value& self, const Bound& given) {
  Heap& heap = run.heap();
  Text indent = empty_text();
  if (given[0].is_string()) {
    indent = given[0].text();
  } else {
    TextBuilder spaces(heap);
    spaces.append_times(" ", static_cast<size_t>(std::max<int64_t>(need_integer(given[0], 4), 0)),
                        Origin::kTemplate);
    indent = spaces.finish();
  }
  const bool first = flag(given[1]);
  const bool blank = flag(given[2]);
  const Text text = need_text(self);
  TextBuilder out(heap, text.size);
  if (first) out.append(indent);
  const Text ended = concatenate(heap, text, make_text(heap, "\n"));
  bool is_first = true;
  for (const Text& line : split_lines(heap, ended, false)) {
    if (!is_first) {
      out.append("\n", Origin::kTemplate);
      if (blank || !line.empty()) out.append(indent);
    }
    out.append(line);
    is_first = false;
  }
  return text_value(out.finish(), text.markup);
}

Value filter_truncate(Interpreter& run, const Value& self, const Bound& given) {
  Heap& heap = run.heap();
  const int64_t length = need_integer(given[0], 255);
  // What has a length and is short enough need not even be a string.
  if (!self.is_string() && length_of(self) >= 0 && length_of(self) <= length) return self;
  const Text text = need_text(self);
  const Text end = given.has(2) ? need_text(given[2]) : make_text(heap, "...");
  const int64_t leeway = given.has(3) && !given[3].is_none() ? need_integer(given[3], 5) : 5;
  const auto end_size = static_cast<int64_t>(count_characters(end));
  const auto size = static_cast<int64_t>(count_characters(text));
  if (length < end_size || leeway < 0) raise(Fault::kValueError, "truncate: the length is less than its end");
  if (size <= length || size - length <= leeway) return self;
  Text kept = text.part(0, byte_of_character(text, static_cast<size_t>(length - end_size)));
  if (!flag(given[1])) {
    const size_t space = kept.view().rfind(' ');
    if (space != std::string_view::npos) kept = kept.part(0, space);
  }
  return text_value(concatenate(heap, kept, end), text.markup);
}

Value filter_wordcount(Interpreter& run, const Value& self, const Bound&) {
  const Text text = soft_text(run, self);
  const std::string_view view = text.view();
  run.heap().charge_bytes(view.size());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < view.size();) {
    const Character character = character_at(view, at);
    const bool word = is_word(character.code);
    words += word && !inside;
    inside = word;
    at += character.size;
  }
  return Value::of(words);
}

/// The lines of one paragraph.
void wrap(Interpreter& run, const Text& line, size_t width, bool breaks_words, std::vector<Text>& lines) {
  const std::string_view view = line.view();
  size_t begin = 0;
  size_t end = 0;
  size_t at = 0;
  size_t used = 0;
  bool open = false;
  const auto close = [&] {
    if (open) lines.push_back(line.part(begin, end - begin));
    open = false;
    used = 0;
  };
  while (at < view.size()) {
    run.heap().charge();
    size_t stop = at;
    size_t size = 0;
    const bool space = is_space(character_at(view, at).code);
    while (stop < view.size() && is_space(character_at(view, stop).code) == space) {
      stop += character_at(view, stop).size;
      ++size;
    }
    if (space) {
      // White space is dropped where a line begins, except at the very start.
      if (open || lines.empty()) {
        if (!open) begin = at;
        open = true;
        used += size;
      }
      at = stop;
      continue;
    }
    if (open && used + size > width && size <= width) {
      close();
      continue;
    }
    if (size > width && breaks_words) {
      if (used >= width) {
        close();
        continue;
      }
      if (!open) begin = at;
      open = true;
      const Text rest = line.part(at, stop - at);
      end = at + byte_of_character(rest, width - used);
      at = end;
      close();
      continue;
    }
    if (open && used + size > width) {
      close();
      continue;
    }
    if (!open) begin = at;
    open = true;
    used += size;
    end = stop;
    at = stop;
  }
  if (open && end > begin) close();
}

Value filter_wordwrap(Interpreter& run, const Value& self, const Bound& given) {
  const Text text = need_text(self);
  const int64_t width = need_integer(given[0], 79);
  if (width <= 0) raise(Fault::kValueError, "invalid width {} (must be > 0)", width);
  if (flag(given[3], true) && text.view().find('-') != std::string_view::npos) {
    raise(Fault::kNotImplementedError, "wordwrap of a text with hyphens is not supported");
  }
  const Text with = given.has(2) && !given[2].is_none() ? need_text(given[2]) : make_text(run.heap(), "\n");
  TextBuilder out(run.heap(), text.size);
  bool first = true;
  for (const Text& paragraph : split_lines(run.heap(), text, false)) {
    std::vector<Text> lines;
    wrap(run, paragraph, static_cast<size_t>(width), flag(given[1], true), lines);
    if (lines.empty()) lines.push_back(empty_text());
    for (const Text& line : lines) {
      if (!first) out.append(with);
      out.append(line);
      first = false;
    }
  }
  return Value::of(out.finish());
}

Value filter_format(Interpreter& run, const Value& self, const Bound& given) {
  const Arguments& all = *given.all;
  if (!all.positional.empty() && !all.keywords.empty()) {
    raise(Fault::kFilterArgumentError, "can't handle positional and keyword arguments at the same time");
  }
  Value values = Value::tuple(all.positional);
  if (!all.keywords.empty()) {
    auto* dict = run.heap().make<Dict>();
    for (const Entry& keyword : all.keywords) set(run.heap(), *dict, keyword.key, keyword.value);
    values = Value::of(dict);
  }
  return Value::of(format_percent(run.heap(), soft_text(run, self), values));
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"trim", filter_trim, "chars"},
    {"string", filter_string},
    {"replace", filter_replace, "old,new,count", 2},
    {"center", filter_center, "width"},
    {"indent", filter_indent, "width,first,blank"},
    {"truncate", filter_truncate, "length,killwords,end,leeway"},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap, "width,break_long_words,wrapstring,break_on_hyphens"},
    {"format", filter_format, "*"},
});

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}

}  // namespace slip::text::jinja
