// What Python's str knows about characters: case, classes, and which of them repr() shows as they are. The
// tables (unicode_tables.inc) are made by tools/unicode_tables.py from Python's own, version 14 of Unicode.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/jinja/text_store.h"

namespace slip::text::jinja {

bool is_space(char32_t code);
bool is_printable(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_title(char32_t code);
/// Letters, digits of all kinds and the underscore: `\w`.
bool is_word(char32_t code);
bool is_identifier(std::string_view text);

/// str.upper() and its like.
Text to_upper(Heap& heap, const Text& text);
Text to_lower(Heap& heap, const Text& text);
Text to_casefold(Heap& heap, const Text& text);
Text to_title(Heap& heap, const Text& text);
Text capitalise(Heap& heap, const Text& text);
Text swap_case(Heap& heap, const Text& text);

/// str.strip(): with `sides` 1 only the left, with 2 only the right one; 3 is both.
Text strip_spaces(const Text& text, int sides);

}  // namespace slip::text::jinja
