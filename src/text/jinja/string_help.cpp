// Work on strings that several filters and methods share. All of it keeps the origin of every byte.
#include <algorithm>

#include "text/jinja/builtin_help.h"
#include "text/jinja/numbers.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {

Text need_text(const Value& value) {
  demand_defined(value);
  if (!value.is_string()) type_error("expected a str, got {}", type_name(value));
  return value.text();
}

int64_t need_integer(const Value& value, int64_t standard) {
  if (value.is_missing()) return standard;
  if (!value.is_integer()) type_error("'{}' object cannot be interpreted as an integer", type_name(value));
  return value.integer();
}

Text replace(Heap& heap, const Text& text, const Text& old, const Text& fresh, int64_t count) {
  const std::string_view view = text.view();
  heap.charge_bytes(view.size());
  if (count == 0 || (!old.empty() && view.find(old.view()) == std::string_view::npos)) return text;
  TextBuilder out(heap, view.size());
  size_t at = 0;
  if (old.empty()) {  // between all characters, and at both ends
    for (; at < view.size() && count != 0; --count) {
      const size_t size = character_at(view, at).size;
      heap.charge();
      out.append(fresh);
      out.append(text.part(at, size));
      at += size;
    }
    if (at == view.size() && count != 0) out.append(fresh);
  }
  for (; !old.empty() && count != 0; --count) {
    const size_t found = view.find(old.view(), at);
    if (found == std::string_view::npos) break;
    heap.charge();
    out.append(text.part(at, found - at));
    out.append(fresh);
    at = found + old.size;
  }
  out.append(text.part(at, view.size() - at));
  Text made = out.finish();
  made.markup = text.markup;
  return made;
}

std::vector<Text> split_lines(Heap& heap, const Text& text, bool keep_ends) {
  const std::string_view view = text.view();
  heap.charge_bytes(view.size());
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < view.size();) {
    const Character c = character_at(view, at);
    const bool breaks = (c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                        c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    size_t next = at + c.size;
    if (breaks) {
      if (c.code == '\r' && next < view.size() && view[next] == '\n') ++next;
      lines.push_back(text.part(begin, (keep_ends ? next : at) - begin));
      heap.charge();
      begin = next;
    }
    at = next;
  }
  if (begin < view.size()) lines.push_back(text.part(begin, view.size() - begin));
  return lines;
}

std::vector<Text> split_words(Heap& heap, const Text& text, int64_t most, bool from_right) {
  std::vector<Text> words;
  Text rest = strip_spaces(text, 3);
  heap.charge_bytes(text.size);
  while (!rest.empty()) {
    heap.charge();
    const std::string_view view = rest.view();
    if (most >= 0 && static_cast<int64_t>(words.size()) == most) {
      words.push_back(rest);
      break;
    }
    if (!from_right) {
      size_t end = 0;
      while (end < view.size() && !is_space(character_at(view, end).code))
        end += character_at(view, end).size;
      words.push_back(rest.part(0, end));
      rest = strip_spaces(rest.part(end, view.size() - end), 1);
      continue;
    }
    size_t begin = view.size();
    while (begin > 0) {
      size_t start = begin - 1;
      while (start > 0 && (static_cast<uint8_t>(view[start]) & 0xC0) == 0x80) --start;
      if (is_space(character_at(view, start).code)) break;
      begin = start;
    }
    words.push_back(rest.part(begin, view.size() - begin));
    rest = strip_spaces(rest.part(0, begin), 2);
  }
  if (from_right) std::reverse(words.begin(), words.end());
  // What is left over keeps the white space at its far end.
  if (most >= 0 && static_cast<int64_t>(words.size()) == most + 1) {
    Text& last = from_right ? words.front() : words.back();
    const uint32_t end = from_right ? last.begin + last.size : text.begin + text.size;
    const uint32_t begin = from_right ? text.begin : last.begin;
    last = {text.store, begin, end - begin, text.markup};
  }
  return words;
}

std::vector<Text> split_at(Heap& heap, const Text& text, std::string_view separator, int64_t most,
                           bool from_right) {
  if (separator.empty()) raise(Fault::kValueError, "empty separator");
  heap.charge_bytes(text.size);
  std::vector<Text> parts;
  const std::string_view view = text.view();
  size_t begin = 0;
  size_t end = view.size();
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    heap.charge();
    if (from_right) {
      const size_t found = view.substr(0, end).rfind(separator);
      if (found == std::string_view::npos) break;
      parts.push_back(text.part(found + separator.size(), end - found - separator.size()));
      end = found;
    } else {
      const size_t found = view.find(separator, begin);
      if (found == std::string_view::npos) break;
      parts.push_back(text.part(begin, found - begin));
      begin = found + separator.size();
    }
  }
  parts.push_back(text.part(begin, end - begin));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Text strip(Heap& heap, const Text& text, const Value& characters, int sides) {
  if (characters.is_missing() || characters.is_none()) {
    const Text stripped = strip_spaces(text, sides);
    heap.charge_bytes((text.size - stripped.size) * 2);
    return stripped;
  }
  if (!characters.is_string()) type_error("strip arg must be None or str");
  const std::string_view set = characters.view();
  const std::string_view view = text.view();
  const auto in_set = [&](size_t at, size_t size) {
    const std::string_view character = view.substr(at, size);
    for (size_t i = set.find(character); i != std::string_view::npos; i = set.find(character, i + 1)) {
      if (character.size() > 1 || character_at(set, i).size == 1) return true;
    }
    return false;
  };
  size_t begin = 0;
  size_t end = view.size();
  while ((sides & 1) != 0 && begin < end) {
    const size_t size = character_at(view, begin).size;
    if (!in_set(begin, size)) break;
    begin += size;
  }
  while ((sides & 2) != 0 && end > begin) {
    size_t start = end - 1;
    while (start > begin && (static_cast<uint8_t>(view[start]) & 0xC0) == 0x80) --start;
    if (!in_set(start, end - start)) break;
    end = start;
  }
  heap.charge_bytes((view.size() - (end - begin)) * 2);
  return text.part(begin, end - begin);
}

Text justify(Heap& heap, const Text& text, int64_t width, const Value& fill, Justify how) {
  const auto size = static_cast<int64_t>(count_characters(text));
  const std::string_view with = fill.is_missing() ? std::string_view(" ") : need_text(fill).view();
  const Origin origin = fill.is_missing() || with.empty() ? Origin::kTemplate : fill.text().origin_at(0);
  if (with.empty() || character_at(with, 0).size != with.size()) {
    type_error("The fill character must be exactly one character long");
  }
  if (width <= size) return text;
  const int64_t missing = width - size;
  const int64_t before = how == Justify::kLeft    ? 0
                         : how == Justify::kRight ? missing
                                                  : missing / 2 + (missing & width & 1);
  TextBuilder out(heap);
  out.append_times(with, static_cast<size_t>(before), origin);
  out.append(text);
  out.append_times(with, static_cast<size_t>(missing - before), origin);
  Text made = out.finish();
  made.markup = text.markup;
  return made;
}

Value list_of(Heap& heap, const std::vector<Text>& texts) {
  Value* items = heap.array<Value>(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) items[i] = Value::of(texts[i]);
  return Value::list({items, texts.size()});
}

Value reach(Interpreter& run, const Value& item, const Value& path, const Value& standard) {
  if (path.is_none() || path.is_missing()) return item;
  const auto step = [&](const Value& from, const Value& key) {
    const Value value = run.item(from, key);
    return value.is_undefined() && !standard.is_missing() && !standard.is_none() ? standard : value;
  };
  if (!path.is_string()) return step(item, path);
  Value value = item;
  for (const Text& part : split_at(run.heap(), path.text(), ".", -1, false)) {
    const std::string_view name = part.view();
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    value = step(value, is_number ? integer_of_digits(run.heap(), name, Origin::kTemplate) : Value::of(part));
  }
  return value;
}

Value without_case(Heap& heap, const Value& value) {
  return value.is_string() ? Value::of(to_lower(heap, value.text())) : value;
}

}  // namespace slip::text::jinja
