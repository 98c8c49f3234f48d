// Filters that make or change numbers.
#include <array>
#include <cmath>

#include "text/jinja/builtin_help.h"
#include "text/jinja/formatting.h"
#include "text/jinja/numbers.h"

namespace slip::text::jinja {
namespace {

Value filter_int(Interpreter& run, const Value& self, const Bound& given) {
  demand_defined(self);
  const Value standard = given.has(0) ? given[0] : Value::of(int64_t{0});
  Heap& heap = run.heap();
  if (self.is_integer()) return Value::of(self.integer(), self.origin());
  if (self.is(Kind::kBigInt)) return self;
  if (self.is(Kind::kFloat)) {
    return std::isnan(self.real()) ? standard : truncate_to_int(heap, self.real(), self.origin());
  }
  if (!self.is_string()) return standard;
  const int64_t base = need_integer(given[1], 10);
  if (base != 0 && (base < 2 || base > 36)) return standard;
  if (const auto whole = parse_int(heap, self.text(), static_cast<int>(base))) return *whole;
  const auto number = parse_float(self.view());
  if (!number || !std::isfinite(*number)) return standard;
  return truncate_to_int(heap, *number, self.text().origin_at(0));
}

Value filter_float(Interpreter&, const Value& self, const Bound& given) {
  demand_defined(self);
  const Value standard = given.has(0) ? given[0] : Value::of(0.0);
  if (self.is_number()) return Value::of(self.real(), self.origin());
  if (!self.is_string() && !self.is(Kind::kBigInt)) return standard;
  const auto number = parse_float(self.view());
  return number ? Value::of(*number, self.text().origin_at(0)) : standard;
}

/// Half to even, as Python's round() does it on the exact value.
Value round_commonly(const Value& number, int64_t precision) {
  if (number.is_integer()) {
    if (precision >= 0) return Value::of(number.integer(), number.origin());
    if (precision < -18) return Value::of(int64_t{0}, number.origin());
    int64_t unit = 1;
    for (int64_t i = precision; i < 0; ++i) unit *= 10;
    const int64_t value = number.integer();
    int64_t quotient = value / unit;
    const int64_t rest = std::abs(value % unit);
    const bool up = rest > unit - rest || (rest == unit - rest && quotient % 2 != 0);
    if (up) quotient += value < 0 ? -1 : 1;
    return Value::of(quotient * unit, number.origin());
  }
  const double value = number.real();
  if (!std::isfinite(value) || precision > 330) return number;
  if (precision >= 0) {
    const auto rounded = parse_float(fmt::format("{:.{}f}", value, static_cast<int>(precision)));
    return Value::of(*rounded, number.origin());
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return Value::of(std::isinf(unit) ? std::copysign(0.0, value) : std::nearbyint(value / unit) * unit,
                   number.origin());
}

Value filter_round(Interpreter& run, const Value& self, const Bound& given) {
  const int64_t precision = need_integer(given[0], 0);
  const std::string_view method = given.has(1) ? need_text(given[1]).view() : std::string_view("common");
  if (method != "common" && method != "ceil" && method != "floor") {
    raise(Fault::kFilterArgumentError, "method must be common, ceil or floor");
  }
  demand_defined(self);
  if (!self.is_number()) type_error("type {} doesn't define __round__ method", type_name(self));
  if (method == "common") return round_commonly(self, precision);
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const Value scaled = Value::of(self.real() * unit, self.origin());
  const double whole = method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real());
  truncate_to_int(run.heap(), whole, self.origin());  // refuses what has no whole part
  return Value::of(whole / unit, self.origin());
}

Value filter_abs(Interpreter& run, const Value& self, const Bound&) {
  if (self.is(Kind::kFloat)) return Value::of(std::abs(self.real()), self.origin());
  if (!self.is_integer()) type_error("bad operand type for abs(): '{}'", type_name(self));
  return self.integer() < 0 ? negate(run.heap(), self) : Value::of(self.integer(), self.origin());
}

Value filter_filesizeformat(Interpreter& run, const Value& self, const Bound& given) {
  demand_defined(self);
  double bytes = 0;
  if (self.is_number()) {
    bytes = self.real();
  } else if (self.is_string()) {
    const auto number = parse_float(self.view());
    if (!number) raise(Fault::kValueError, "could not convert string to float: '{}'", self.view());
    bytes = *number;
  } else {
    type_error("float() argument must be a string or a real number, not '{}'", type_name(self));
  }
  const bool binary = flag(given[0]);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return make_text_value(run.heap(), "1 Byte");
  if (bytes < base) return make_text_value(run.heap(), fmt::format("{:.0f} Bytes", std::trunc(bytes)));
  static constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base * base;
  size_t at = 0;
  for (; at + 1 < kUnits.size() && bytes >= unit; ++at) unit *= base;
  const char letter = binary && at == 0 ? 'K' : kUnits[at];
  return make_text_value(
      run.heap(),
      fmt::format("{} {}{}", float_digits(base * bytes / unit, 'f', 1, false), letter, binary ? "iB" : "B"),
      self.is_number() ? self.origin() : Origin::kForeign);
}

constexpr auto kFilters = std::to_array<Builtin>({
    {"int", filter_int, "default,base"},
    {"float", filter_float, "default"},
    {"round", filter_round, "precision,method"},
    {"abs", filter_abs},
    {"filesizeformat", filter_filesizeformat, "binary"},
});

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace slip::text::jinja
