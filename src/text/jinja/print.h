// Values as text: Python's str(), repr() and json.dumps(), with the origin of every byte kept. What Python
// prints around values (quotes, commas, True, None) counts as the template's.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace slip::text::jinja {

/// As `{{ value }}` prints it.
Text to_text(Heap& heap, const Value& value);
void print(Heap& heap, const Value& value, TextBuilder& out);
void print_repr(Heap& heap, const Value& value, TextBuilder& out);
Text repr(Heap& heap, const Value& value);
/// As Python prints a float: the shortest digits that read back the same, always with a point or an exponent.
std::string float_text(double number);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent = std::nullopt;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void print_json(Heap& heap, const Value& value, const JsonStyle& style, TextBuilder& out);

/// `text` with & < > ' " as entities, unless it is marked safe already.
Text escape_html(Heap& heap, const Text& text);

}  // namespace slip::text::jinja
