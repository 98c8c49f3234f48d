#include "text/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <string>

#include "text/jinja/failure.h"
#include "text/utf8.h"

namespace slip::text::jinja {
namespace {

constexpr size_t kMostDigits = 4300;  // Python's own limit

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

/// The length of digits of `base` at `at`, single underscores between them.
size_t digits_length(std::string_view text, size_t at, int base) {
  size_t end = at;
  while (end < text.size()) {
    const size_t digit = text[end] == '_' && end > at ? end + 1 : end;
    if (digit >= text.size() || digit_value(text[digit]) >= base) break;
    end = digit + 1;
  }
  return end - at;
}

int base_of_prefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  switch (text[1] | 0x20) {
    case 'b': return 2;
    case 'o': return 8;
    case 'x': return 16;
    default: return 10;
  }
}

std::string without_underscores(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  return digits;
}

Value integer_of(Heap& heap, std::string_view digits, bool minus, int base, Origin origin) {
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  if (digits.size() > kMostDigits) {
    raise(Fault::kValueError, "an integer of {} digits is too long", digits.size());
  }
  const std::string signed_digits = (minus ? "-" : "") + std::string(digits);
  int64_t number = 0;
  const auto read =
      std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), number, base);
  if (read.ec == std::errc()) return Value::of(number, origin);
  if (base != 10) raise(Fault::kOverflowError, "an integer of more than 64 bits must be written in decimal");
  return Value::of(make_text(heap, signed_digits, origin), Kind::kBigInt);
}

}  // namespace

size_t number_length(std::string_view text, bool may_be_float) {
  if (const int base = base_of_prefix(text); base != 10) {
    const size_t from = text.size() > 2 && text[2] == '_' ? 3 : 2;
    const size_t digits = digits_length(text, from, base);
    if (digits > 0) return from + digits;
  }
  const size_t whole = digits_length(text, 0, 10);
  if (may_be_float) {
    size_t end = whole;
    if (end < text.size() && text[end] == '.') {
      const size_t fraction = digits_length(text, end + 1, 10);
      if (fraction > 0) end += 1 + fraction;
    }
    if (end < text.size() && (text[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
      const size_t digits = digits_length(text, exponent, 10);
      if (digits > 0) end = exponent + digits;
    }
    if (end > whole) return end;
  }
  if (text[0] != '0') return whole;
  size_t zeros = 1;  // an integer does not begin with a zero unless it is one
  while (zeros < whole && (text[zeros] == '0' || text[zeros] == '_')) ++zeros;
  return text[zeros - 1] == '_' ? zeros - 1 : zeros;
}

Value parse_literal_number(Heap& heap, std::string_view literal) {
  const std::string digits = without_underscores(literal);
  const int base = base_of_prefix(digits);
  if (base != 10) return integer_of(heap, std::string_view(digits).substr(2), false, base, Origin::kTemplate);
  if (digits.find_first_of(".eE") == std::string::npos) {
    return integer_of(heap, digits, false, 10, Origin::kTemplate);
  }
  return Value::of(parse_float(digits).value_or(0));
}

Value integer_of_digits(Heap& heap, std::string_view digits, Origin origin) {
  const bool minus = digits.starts_with('-');
  return integer_of(heap, digits.substr(minus ? 1 : 0), minus, 10, origin);
}

std::optional<Value> parse_int(Heap& heap, const Text& text, int base) {
  std::string_view digits = trim(text.view());
  const Origin origin = text.empty() ? Origin::kTemplate : text.origin_at(0);
  const bool minus = digits.starts_with('-');
  if (minus || digits.starts_with('+')) digits.remove_prefix(1);
  const int prefix = base_of_prefix(digits);
  const bool zeros_only = digits.find_first_not_of("0_") == std::string_view::npos;
  if (prefix != 10 && (base == prefix || base == 0)) {
    digits.remove_prefix(digits.size() > 2 && digits[2] == '_' ? 3 : 2);
    base = prefix;
  } else if (base == 0) {
    if (digits.starts_with('0') && !zeros_only) return std::nullopt;
    base = 10;
  }
  if (digits.empty() || digits_length(digits, 0, base) != digits.size()) return std::nullopt;
  return integer_of(heap, without_underscores(digits), minus, base, origin);
}

std::optional<double> parse_float(std::string_view text) {
  text = trim(text);
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] == '-' || text[0] == '+') return std::nullopt;
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (c == '_') {
      if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
      continue;
    }
    digits += c;
  }
  // from_chars takes "inf" and "nan" too, but also "nan(...)".
  if (digits.find('(') != std::string::npos) return std::nullopt;
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (read.ptr != end || read.ec == std::errc::invalid_argument) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    number = std::strtod(digits.c_str(), nullptr);  // the infinity or the zero that Python gives
  }
  return minus ? -number : number;
}

Value truncate_to_int(Heap& heap, double number, Origin origin) {
  if (std::isnan(number)) raise(Fault::kValueError, "cannot convert float NaN to integer");
  if (std::isinf(number)) raise(Fault::kOverflowError, "cannot convert float infinity to integer");
  const double whole = std::trunc(number);
  if (whole >= -9.2e18 && whole <= 9.2e18) return Value::of(static_cast<int64_t>(whole), origin);
  return integer_of_digits(heap, fmt::format("{:.0f}", whole), origin);
}

}  // namespace slip::text::jinja
