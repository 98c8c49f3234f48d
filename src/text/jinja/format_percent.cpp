// form % values
#include <algorithm>
#include <cmath>

#include "text/jinja/failure.h"
#include "text/jinja/formatting.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, const Text& form, const Value& values)
      : heap_(heap), form_(form), text_(form.view()), values_(values), out_(heap, form.size) {}

  Text format() {
    heap_.charge_bytes(text_.size());
    while (at_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', at_), text_.size());
      out_.append(form_.part(at_, percent - at_));
      at_ = percent;
      if (at_ < text_.size()) conversion();
    }
    if (values_.is(Kind::kTuple)) {
      if (next_ < values_.items().size()) refuse_rest();
    } else if (next_ == 0 && !used_key_ && !may_be_mapping()) {
      refuse_rest();
    }
    return out_.finish();
  }

 private:
  [[noreturn]] static void refuse_rest() {
    type_error("not all arguments converted during string formatting");
  }
  /// What has keys or indices may go unused.
  bool may_be_mapping() const {
    return values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kRange) ||
           values_.is_undefined();
  }
  [[noreturn]] static void refuse_end() { raise(Fault::kValueError, "incomplete format"); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  Value next_value() {
    if (!values_.is(Kind::kTuple)) {
      if (next_++ == 0) return values_;
    } else if (next_ < values_.items().size()) {
      return values_.items()[next_++];
    }
    type_error("not enough arguments for format string");
  }

  Value keyed_value() {
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) raise(Fault::kValueError, "incomplete format key");
    if (!values_.is(Kind::kDict)) type_error("format requires a mapping");
    const std::string_view key = text_.substr(at_, end - at_);
    at_ = end + 1;
    used_key_ = true;
    const Value* found = find(*values_.dict(), key);
    if (found == nullptr) raise(Fault::kKeyError, "'{}'", key);
    return *found;
  }

  /// Digits, or a star that takes the next value.
  std::optional<int64_t> number() {
    if (peek() == '*') {
      ++at_;
      const Value value = next_value();
      if (!value.is_integer()) type_error("* wants int");
      return value.integer();
    }
    if (peek() < '0' || peek() > '9') return std::nullopt;
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > INT32_MAX) raise(Fault::kValueError, "width too big");
    }
    return value;
  }

  void conversion() {
    ++at_;
    Value value;
    if (peek() == '(') {
      ++at_;
      value = keyed_value();
    }
    FormatSpec spec;
    bool zero = false;
    bool left = false;
    while (std::string_view("-+ #0").find(peek()) != std::string_view::npos && at_ < text_.size()) {
      switch (text_[at_++]) {
        case '-': left = true; break;
        case '+': spec.sign = '+'; break;
        case ' ': spec.sign = spec.sign == '+' ? '+' : ' '; break;
        case '#': spec.alternate = true; break;
        default: zero = true;
      }
    }
    spec.width = number();
    if (spec.width && *spec.width < 0) {
      left = true;
      spec.width = *spec.width == INT64_MIN ? INT64_MAX : -*spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = static_cast<int>(std::clamp<int64_t>(number().value_or(0), 0, INT32_MAX));
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    if (at_ == text_.size()) refuse_end();
    const char type = text_[at_++];
    if (type == '%') return out_.append("%", Origin::kTemplate);
    if (value.is_missing()) value = next_value();
    spec.align = left ? '<' : '>';
    convert(value, type, spec, zero && !left);
  }

  void convert(const Value& value, char type, FormatSpec spec, bool zero) {
    switch (type) {
      case 's':
      case 'r':
      case 'a': {
        const Text text = type == 's' ? to_text(heap_, value) : repr(heap_, value);
        spec.type = 0;
        return format_value(heap_, Value::of(text), spec, out_);
      }
      case 'c': {
        if (value.is_string() && length_of(value) == 1) return format_value(heap_, value, spec, out_);
        if (!value.is_integer()) type_error("%c requires int or char");
        spec.type = 'c';
        return format_value(heap_, value, spec, out_);
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return integer(value, type, spec, zero);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (!value.is_number()) {
          demand_defined(value);
          type_error("must be real number, not {}", type_name(value));
        }
        if (zero) {
          spec.fill = '0';
          spec.align = '=';
        }
        spec.type = type;
        return format_value(heap_, Value::of(value.real(), value.origin()), spec, out_);
      }
      default: raise(Fault::kValueError, "unsupported format character '{}'", type);
    }
  }

  void integer(const Value& value, char type, FormatSpec spec, bool zero) {
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    Value whole = value;
    if (value.is(Kind::kFloat) && decimal) whole = truncate_to_int(heap_, value.real(), value.origin());
    if (whole.is(Kind::kBigInt) && decimal) {
      return format_value(heap_, Value::of(whole.text()), spec, out_);
    }
    if (!whole.is_integer()) {
      type_error("%{} format: {} is required, not {}", type, decimal ? "a real number" : "an integer",
                 type_name(value));
    }
    const int digits = spec.precision.value_or(0);
    spec.precision.reset();
    spec.type = decimal ? 'd' : type;
    if (digits > 0) {
      // At least so many digits, zeros in front.
      FormatSpec inner;
      inner.fill = '0';
      inner.align = '=';
      inner.sign = spec.sign;
      inner.width = int64_t{digits} + (whole.integer() < 0 || spec.sign != '-' ? 1 : 0);
      inner.type = spec.type;
      TextBuilder padded(heap_);
      format_value(heap_, whole, inner, padded);
      spec.type = 0;
      return format_value(heap_, Value::of(padded.finish()), spec, out_);
    }
    if (zero) {
      spec.fill = '0';
      spec.align = '=';
    }
    format_value(heap_, whole, spec, out_);
  }

  Heap& heap_;
  const Text form_;
  std::string_view text_;
  const Value values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;
  bool used_key_ = false;
};

}  // namespace

Text format_percent(Heap& heap, const Text& form, const Value& values) {
  Text made = PercentFormatter(heap, form, values).format();
  made.markup = form.markup;
  return made;
}

}  // namespace slip::text::jinja
