// What the files of filters, tests and methods share.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/callables.h"
#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {

/// The text of a string, or of what another value prints as.
inline Text soft_text(Interpreter& run, const Value& value) {
  return to_text(run.heap(), value);
}

/// A value that must be a string.
Text need_text(const Value& value);
/// An argument that must be a whole number, or its standard value when it was not given.
int64_t need_integer(const Value& value, int64_t standard);
inline bool flag(const Value& value, bool standard = false) {
  return value.is_missing() ? standard : truthy(value);
}
inline Value text_value(Text text, bool markup) {
  text.markup = markup;
  return Value::of(text);
}

/// text.replace(old, new, count), count -1 for all.
Text replace(Heap& heap, const Text& text, const Text& old, const Text& fresh, int64_t count);
/// str.splitlines()
std::vector<Text> split_lines(Heap& heap, const Text& text, bool keep_ends);
/// str.split() on white space, at most `most` times from the left, or from the right.
std::vector<Text> split_words(Heap& heap, const Text& text, int64_t most, bool from_right);
std::vector<Text> split_at(Heap& heap, const Text& text, std::string_view separator, int64_t most,
                           bool from_right);
/// str.strip(chars) by bits: 1 for the left side, 2 for the right.
Text strip(Heap& heap, const Text& text, const Value& characters, int sides);
/// str.center() and its like: `before` and `after` are how much of what is missing goes where (0, 1, or 2
/// both).
enum class Justify : uint8_t { kLeft, kRight, kCentre };
Text justify(Heap& heap, const Text& text, int64_t width, const Value& fill, Justify how);
Value list_of(Heap& heap, const std::vector<Text>& texts);

/// What an `attribute` argument such as "function.name" or 0 reaches in `item`.
Value reach(Interpreter& run, const Value& item, const Value& path, const Value& standard = {});
/// A key for sorting and comparing: strings in lower case.
Value without_case(Heap& heap, const Value& value);

}  // namespace slip::text::jinja
