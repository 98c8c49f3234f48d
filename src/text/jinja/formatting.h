// The two ways in which Python fits values into a text: "%5.1f" % x and "{:>5.1f}".format(x). What the form
// itself says keeps the form's origin; a value keeps its own.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/callables.h"
#include "text/jinja/value.h"

namespace slip::text::jinja {

struct FormatSpec {
  char32_t fill = ' ';
  char align = 0;  // one of < > ^ =, or 0 for that of the type
  char sign = '-';
  bool alternate = false;
  bool commas = false;
  bool underscores = false;
  std::optional<int64_t> width = std::nullopt;
  std::optional<int> precision = std::nullopt;
  char type = 0;
};

/// A spec as it stands behind the colon; ValueError when it is none.
FormatSpec parse_spec(std::string_view text);
void format_value(Heap& heap, const Value& value, const FormatSpec& spec, TextBuilder& out);
/// Digits of a float by one of e f g % and their capitals, without its sign.
std::string float_digits(double magnitude, char type, int precision, bool alternate);
/// Digits of an integer in base 2, 8, 10 or 16, without its sign.
std::string integer_digits(uint64_t magnitude, char type);

/// form.format(...)
Text format_braces(Interpreter& run, const Text& form, const Arguments& given);

}  // namespace slip::text::jinja
