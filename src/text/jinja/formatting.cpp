#include "text/jinja/formatting.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/failure.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

constexpr int kMostPrecision = 1000;

struct Digits {
  std::string sign;
  std::string prefix;
  std::string body;
};

std::string sign_of(bool minus, char wanted) {
  if (minus) return "-";
  return wanted == '-' ? "" : std::string(1, wanted);
}

std::string grouped(const std::string& digits, char separator) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string made;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) made += separator;
    made += digits[i];
  }
  return made + digits.substr(whole);
}

Digits of_integer(int64_t number, const FormatSpec& spec) {
  const bool minus = number < 0;
  const uint64_t magnitude = minus ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  Digits digits{sign_of(minus, spec.sign), "", integer_digits(magnitude, spec.type)};
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')) {
    digits.prefix = {'0', spec.type};
  }
  return digits;
}

Digits of_float(double number, const FormatSpec& spec) {
  const bool minus = std::signbit(number) && !std::isnan(number);
  const double magnitude = std::abs(number);
  Digits digits{sign_of(minus, spec.sign), "", ""};
  if (spec.type == 0 && !spec.precision) {
    digits.body = float_text(magnitude);
  } else if (spec.type == 0) {
    digits.body = float_digits(magnitude, 'g', *spec.precision, spec.alternate);
    if (digits.body.find_first_of(".einf") == std::string::npos) digits.body += ".0";
  } else {
    digits.body = float_digits(magnitude, spec.type, spec.precision.value_or(6), spec.alternate);
  }
  return digits;
}

void put_fill(char32_t fill, int64_t count, TextBuilder& out, Heap& heap) {
  if (count <= 0) return;
  TextBuilder one(heap);
  one.append_character(fill, Origin::kTemplate);
  out.append_times(one.view(), static_cast<size_t>(count), Origin::kTemplate);
}

void put_padded(Heap& heap, const Text& text, const FormatSpec& spec, char standard, TextBuilder& out) {
  const int64_t missing = spec.width.value_or(0) - static_cast<int64_t>(count_characters(text));
  const char align = spec.align == 0 ? standard : spec.align;
  const int64_t before = missing <= 0 ? 0 : align == '>' ? missing : align == '^' ? missing / 2 : 0;
  put_fill(spec.fill, before, out, heap);
  out.append(text);
  put_fill(spec.fill, missing - before, out, heap);
}

void put_digits(Heap& heap, Digits digits, const FormatSpec& spec, Origin origin, TextBuilder& out) {
  if (spec.commas) digits.body = grouped(digits.body, ',');
  if (spec.underscores) digits.body = grouped(digits.body, '_');
  const std::string head = digits.sign + digits.prefix;
  if (spec.align == '=') {
    out.append(head, origin);
    put_fill(spec.fill, spec.width.value_or(0) - static_cast<int64_t>(head.size() + digits.body.size()), out,
             heap);
    return out.append(digits.body, origin);
  }
  put_padded(heap, make_text(heap, head + digits.body, origin), spec, '>', out);
}

[[noreturn]] void refuse_type(char type, const Value& value) {
  raise(Fault::kValueError, "Unknown format code '{}' for object of type '{}'", type, type_name(value));
}

void format_number(Heap& heap, const Value& value, const FormatSpec& spec, TextBuilder& out) {
  static constexpr std::string_view kFloatTypes = "eEfFgG%";
  const bool as_float = value.is(Kind::kFloat) || kFloatTypes.find(spec.type) != std::string_view::npos;
  const bool has_type = spec.type != 0 && spec.type != 'd' && spec.type != 'n';
  if (as_float) {
    if (has_type && kFloatTypes.find(spec.type) == std::string_view::npos) refuse_type(spec.type, value);
    if (value.is(Kind::kFloat) && spec.type != 0 && !has_type) refuse_type(spec.type, value);
    return put_digits(heap, of_float(value.real(), spec), spec, value.origin(), out);
  }
  if (spec.precision) raise(Fault::kValueError, "Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    TextBuilder one(heap);
    if (value.integer() < 0 || value.integer() > 0x10FFFF)
      raise(Fault::kOverflowError, "%c arg not in range(0x110000)");
    one.append_character(static_cast<char32_t>(value.integer()), value.origin());
    return put_padded(heap, one.finish(), spec, '<', out);
  }
  if (has_type && spec.type != 'x' && spec.type != 'X' && spec.type != 'o' && spec.type != 'b') {
    refuse_type(spec.type, value);
  }
  put_digits(heap, of_integer(value.integer(), spec), spec, value.origin(), out);
}

Text first_characters(const Text& text, int count) {
  if (static_cast<size_t>(count) >= text.size) return text;
  return text.part(0, std::min<size_t>(byte_of_character(text, static_cast<size_t>(count)), text.size));
}

bool is_plain(const FormatSpec& spec) {
  return spec.align == 0 && !spec.width && !spec.precision && spec.type == 0 && !spec.commas &&
         !spec.underscores && !spec.alternate && spec.sign == '-';
}

}  // namespace

std::string integer_digits(uint64_t magnitude, char type) {
  switch (type) {
    case 'x': return fmt::format("{:x}", magnitude);
    case 'X': return fmt::format("{:X}", magnitude);
    case 'o': return fmt::format("{:o}", magnitude);
    case 'b': return fmt::format("{:b}", magnitude);
    default: return fmt::format("{}", magnitude);
  }
}

std::string float_digits(double magnitude, char type, int precision, bool alternate) {
  const bool capital = type == 'E' || type == 'F' || type == 'G';
  if (std::isnan(magnitude)) return capital ? "NAN" : "nan";
  if (std::isinf(magnitude)) return capital ? "INF" : "inf";
  if (precision > kMostPrecision) raise(Fault::kValueError, "precision too big");
  switch (type) {
    case 'e': return fmt::format("{:.{}e}", magnitude, precision);
    case 'E': return fmt::format("{:.{}E}", magnitude, precision);
    case '%': return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 'g':
    case 'G': {
      const int digits = std::max(precision, 1);
      if (alternate) return fmt::format(fmt::runtime(capital ? "{:#.{}G}" : "{:#.{}g}"), magnitude, digits);
      return fmt::format(fmt::runtime(capital ? "{:.{}G}" : "{:.{}g}"), magnitude, digits);
    }
    default: {
      std::string text = fmt::format("{:.{}f}", magnitude, precision);
      if (alternate && precision == 0) text += '.';
      return text;
    }
  }
}

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t at = 0;
  if (!text.empty()) {
    const Character first = character_at(text, 0);
    if (text.size() > first.size && is_align(text[first.size])) {
      spec.fill = first.code;
      spec.align = text[first.size];
      at = first.size + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto take = [&](std::string_view choices) {
    if (at >= text.size() || choices.find(text[at]) == std::string_view::npos) return '\0';
    return text[at++];
  };
  const auto number = [&]() -> std::optional<int64_t> {
    if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
    int64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = value * 10 + (text[at] - '0');
      if (value > INT32_MAX) raise(Fault::kValueError, "Too many decimal digits in format string");
    }
    return value;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  if (take("#") != 0) spec.alternate = true;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = '0';
    spec.align = '=';
  }
  spec.width = number();
  if (const char separator = take(",_")) (separator == ',' ? spec.commas : spec.underscores) = true;
  if (take(".") != 0) {
    const auto precision = number();
    if (!precision) raise(Fault::kValueError, "Format specifier missing precision");
    spec.precision = static_cast<int>(*precision);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) raise(Fault::kValueError, "Invalid format specifier");
  return spec;
}

void format_value(Heap& heap, const Value& value, const FormatSpec& spec, TextBuilder& out) {
  if (is_plain(spec)) return print(heap, value, out);
  if (value.is_string()) {
    if (spec.type != 0 && spec.type != 's') refuse_type(spec.type, value);
    if (spec.align == '=' && spec.fill != '0') {
      raise(Fault::kValueError, "'=' alignment not allowed in string format specifier");
    }
    FormatSpec padded = spec;
    if (spec.align == '=') padded.align = '<';
    const Text text = spec.precision ? first_characters(value.text(), *spec.precision) : value.text();
    return put_padded(heap, text, padded, '<', out);
  }
  if (value.is_number()) return format_number(heap, value, spec, out);
  if (value.is_undefined()) return put_padded(heap, empty_text(), spec, '<', out);
  type_error("unsupported format string passed to {}.__format__", type_name(value));
}

}  // namespace slip::text::jinja
