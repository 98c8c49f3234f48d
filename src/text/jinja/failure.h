// Failure: what stops a template, with the class that jinja2 or Python gives it. Thrown inside the
// interpreter and turned into a TemplateError, which names line and column, where it leaves (template.h).
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace slip::text::jinja {

enum class Fault : uint8_t {
  kTemplateSyntaxError,
  kTemplateAssertionError,
  kTemplateRuntimeError,
  kTemplateError,  // raise_exception()
  kUndefinedError,
  kSecurityError,
  kFilterArgumentError,
  kTypeError,
  kValueError,
  kAttributeError,
  kIndexError,
  kKeyError,
  kZeroDivisionError,
  kOverflowError,
  kRecursionError,
  kRuntimeError,
  kMemoryError,
  kSyntaxError,
  kUnicodeError,
  kNotImplementedError,  // jinja2 has it, we do not
};

/// The name of the class, as in "TypeError".
std::string_view name_of(Fault fault);

struct Failure {
  static constexpr size_t kNowhere = SIZE_MAX;

  Fault fault;
  std::string message;
  size_t offset = kNowhere;  // into the template's source, once known
};

template <typename... Args>
[[noreturn]] void raise(Fault fault, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{fault, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename... Args>
[[noreturn]] void type_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{Fault::kTypeError, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace slip::text::jinja
