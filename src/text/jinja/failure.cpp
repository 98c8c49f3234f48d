#include "text/jinja/failure.h"

namespace slip::text::jinja {

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::kTemplateSyntaxError: return "TemplateSyntaxError";
    case Fault::kTemplateAssertionError: return "TemplateAssertionError";
    case Fault::kTemplateRuntimeError: return "TemplateRuntimeError";
    case Fault::kTemplateError: return "TemplateError";
    case Fault::kUndefinedError: return "UndefinedError";
    case Fault::kSecurityError: return "SecurityError";
    case Fault::kFilterArgumentError: return "FilterArgumentError";
    case Fault::kTypeError: return "TypeError";
    case Fault::kValueError: return "ValueError";
    case Fault::kAttributeError: return "AttributeError";
    case Fault::kIndexError: return "IndexError";
    case Fault::kKeyError: return "KeyError";
    case Fault::kZeroDivisionError: return "ZeroDivisionError";
    case Fault::kOverflowError: return "OverflowError";
    case Fault::kRecursionError: return "RecursionError";
    case Fault::kRuntimeError: return "RuntimeError";
    case Fault::kMemoryError: return "MemoryError";
    case Fault::kSyntaxError: return "SyntaxError";
    case Fault::kUnicodeError: return "UnicodeError";
    case Fault::kNotImplementedError: break;
  }
  return "NotImplementedError";
}

}  // namespace slip::text::jinja
