// Numbers as text: literals of a template, and what Python's int() and float() read. Integers beyond 64 bits
// keep their digits (Kind::kBigInt).
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace slip::text::jinja {

/// How much of `text`, which starts with a digit, is a number.
size_t number_length(std::string_view text, bool may_be_float);
Value parse_literal_number(Heap& heap, std::string_view literal);

/// As Python's int(text, base) and float(text); nothing where those raise ValueError.
std::optional<Value> parse_int(Heap& heap, const Text& text, int base);
std::optional<double> parse_float(std::string_view text);
/// A decimal integer of any length, sign included.
Value integer_of_digits(Heap& heap, std::string_view digits, Origin origin);
/// A float without its fraction; OverflowError and ValueError as Python has them.
Value truncate_to_int(Heap& heap, double number, Origin origin);

}  // namespace slip::text::jinja
