// Arithmetic, as Python has it: integers stay integers, `/` makes floats, `+` and `*` also join and repeat.
#include <cmath>
#include <limits>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

std::string_view sign_of(Operator op) {
  switch (op) {
    case Operator::kAdd: return "+";
    case Operator::kSubtract: return "-";
    case Operator::kMultiply: return "*";
    case Operator::kDivide: return "/";
    case Operator::kFloorDivide: return "//";
    case Operator::kModulo: return "%";
    case Operator::kPower: break;
  }
  return "** or pow()";
}

[[noreturn]] void too_large() {
  raise(Fault::kOverflowError, "computing with integers of more than 64 bits is not supported");
}

Origin origin_of(const Value& left, const Value& right) {
  const bool ours = left.origin() == Origin::kTemplate && right.origin() == Origin::kTemplate;
  return ours ? Origin::kTemplate : Origin::kForeign;
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (base == 1 || exponent == 0) return 1;
  if (base == 0) return 0;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  int64_t result = 1;
  for (; exponent > 0; --exponent) {  // overflows after 63 rounds at the latest
    if (__builtin_mul_overflow(result, base, &result)) too_large();
  }
  return result;
}

Value calculate_integers(Operator op, int64_t a, int64_t b, Origin origin) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd: overflows = __builtin_add_overflow(a, b, &result); break;
    case Operator::kSubtract: overflows = __builtin_sub_overflow(a, b, &result); break;
    case Operator::kMultiply: overflows = __builtin_mul_overflow(a, b, &result); break;
    case Operator::kDivide:
      if (b == 0) raise(Fault::kZeroDivisionError, "division by zero");
      return Value::of(static_cast<double>(a) / static_cast<double>(b), origin);
    case Operator::kFloorDivide:
    case Operator::kModulo:
      if (b == 0) {
        raise(Fault::kZeroDivisionError, "integer {} by zero",
              op == Operator::kModulo ? "modulo" : "division");
      }
      if (b == -1) {  // the one division that overflows
        overflows = op == Operator::kFloorDivide && a == std::numeric_limits<int64_t>::min();
        result = op == Operator::kFloorDivide && !overflows ? -a : 0;
      } else {
        result = op == Operator::kFloorDivide ? floor_divide(a, b) : a - floor_divide(a, b) * b;
      }
      break;
    case Operator::kPower:
      if (b >= 0) return Value::of(integer_power(a, b), origin);
      if (a == 0) raise(Fault::kZeroDivisionError, "0.0 cannot be raised to a negative power");
      return Value::of(std::pow(static_cast<double>(a), static_cast<double>(b)), origin);
  }
  if (overflows) too_large();
  return Value::of(result, origin);
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double float_floor(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double calculate_floats(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd: return a + b;
    case Operator::kSubtract: return a - b;
    case Operator::kMultiply: return a * b;
    case Operator::kDivide:
      if (b == 0) raise(Fault::kZeroDivisionError, "float division by zero");
      return a / b;
    case Operator::kFloorDivide:
      if (b == 0) raise(Fault::kZeroDivisionError, "float floor division by zero");
      return float_floor(a, b);
    case Operator::kModulo:
      if (b == 0) raise(Fault::kZeroDivisionError, "float modulo");
      return float_modulo(a, b);
    case Operator::kPower: break;
  }
  if (a == 0 && b < 0) raise(Fault::kZeroDivisionError, "0.0 cannot be raised to a negative power");
  if (a < 0 && std::floor(b) != b) {
    raise(Fault::kNotImplementedError, "a power that is a complex number is not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) {
    raise(Fault::kOverflowError, "(34, 'Numerical result out of range')");
  }
  return result;
}

Value repeat(Heap& heap, const Value& value, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  if (value.is_string()) {
    const Text text = value.text();
    if (count == 0 || text.empty()) return Value::of(text.part(0, 0));
    if (count > (size_t{1} << 31) / text.size) raise(Fault::kMemoryError, "a text would become too long");
    heap.charge_bytes(text.size * count);
    TextBuilder out(heap, text.size * count);
    for (size_t i = 0; i < count; ++i) out.append(text);
    Text made = out.finish();
    made.markup = text.markup;
    return Value::of(made);
  }
  const auto items = value.items();
  if (count == 0 || items.empty()) return Value::list({}, value.kind());
  if (count > (size_t{1} << 31) / items.size()) raise(Fault::kMemoryError, "a list would become too long");
  heap.charge(items.size() * count / 4);
  Value* all = heap.array<Value>(items.size() * count);
  for (size_t i = 0; i < count; ++i) std::copy(items.begin(), items.end(), all + i * items.size());
  return Value::list({all, items.size() * count}, value.kind());
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is_sequence();
}

Value add(Heap& heap, const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    const bool safe = left.text().markup || right.text().markup;
    if (!safe) return Value::of(concatenate(heap, left.text(), right.text()));
    // What is marked safe escapes what it is joined with.
    Text joined = concatenate(heap, escape_html(heap, left.text()), escape_html(heap, right.text()));
    joined.markup = true;
    return Value::of(joined);
  }
  if (left.is_sequence() && left.kind() == right.kind()) {
    const auto a = left.items();
    const auto b = right.items();
    heap.charge((a.size() + b.size()) / 4);
    Value* all = heap.array<Value>(a.size() + b.size());
    std::copy(a.begin(), a.end(), all);
    std::copy(b.begin(), b.end(), all + a.size());
    return Value::list({all, a.size() + b.size()}, left.kind());
  }
  if (left.is_string() || left.is_sequence()) {
    demand_defined(right);
    type_error("can only concatenate {} (not \"{}\") to {}", type_name(left), type_name(right),
               type_name(left));
  }
  demand_defined(left);
  demand_defined(right);
  type_error("unsupported operand type(s) for +: '{}' and '{}'", type_name(left), type_name(right));
}

}  // namespace

Value calculate(Heap& heap, Operator op, const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) {
    return calculate_integers(op, left.integer(), right.integer(), origin_of(left, right));
  }
  if (left.is_number() && right.is_number()) {
    return Value::of(calculate_floats(op, left.real(), right.real()), origin_of(left, right));
  }
  if (op == Operator::kModulo && left.is_string()) return Value::of(format_percent(heap, left.text(), right));
  demand_defined(left);
  if (op == Operator::kAdd) return add(heap, left, right);
  demand_defined(right);
  if (op == Operator::kMultiply && can_repeat(left) && right.is_integer()) {
    return repeat(heap, left, right.integer());
  }
  if (op == Operator::kMultiply && can_repeat(right) && left.is_integer()) {
    return repeat(heap, right, left.integer());
  }
  if (left.is(Kind::kBigInt) || right.is(Kind::kBigInt)) too_large();
  if (op == Operator::kMultiply && (can_repeat(left) || can_repeat(right))) {
    type_error("can't multiply sequence by non-int of type '{}'", type_name(can_repeat(left) ? right : left));
  }
  type_error("unsupported operand type(s) for {}: '{}' and '{}'", sign_of(op), type_name(left),
             type_name(right));
}

Value negate(Heap& heap, const Value& value) {
  demand_defined(value);
  if (value.is(Kind::kFloat)) return Value::of(-value.real(), value.origin());
  if (value.is(Kind::kBigInt)) {
    const std::string_view digits = value.view();
    const Origin origin = value.text().origin_at(0);
    if (digits.starts_with('-')) return integer_of_digits(heap, digits.substr(1), origin);
    return integer_of_digits(heap, fmt::format("-{}", digits), origin);
  }
  if (!value.is_integer()) type_error("bad operand type for unary -: '{}'", type_name(value));
  if (value.integer() == std::numeric_limits<int64_t>::min())
    return integer_of_digits(heap, "9223372036854775808", value.origin());
  return Value::of(-value.integer(), value.origin());
}

Value positive(const Value& value) {
  demand_defined(value);
  if (value.is_integer()) return Value::of(value.integer(), value.origin());
  if (!value.is(Kind::kFloat)) type_error("bad operand type for unary +: '{}'", type_name(value));
  return value;
}

}  // namespace slip::text::jinja
