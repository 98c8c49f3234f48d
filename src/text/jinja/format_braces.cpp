// form.format(...): fields in braces, by Python's rules and behind the sandbox.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/formatting.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& run, const Arguments& given) : run_(run), given_(given) {}

  /// `nested`: a spec with fields in it.
  Text format(const Text& form, bool nested) {
    TextBuilder out(run_.heap(), form.size);
    const std::string_view text = form.view();
    run_.heap().charge_bytes(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(form.part(at, brace - at));
      if (brace == text.size()) break;
      at = brace + 1;
      if (at < text.size() && text[at] == text[brace]) {
        out.append(form.part(at++, 1));
        continue;
      }
      if (text[brace] == '}') raise(Fault::kValueError, "Single '}}' encountered in format string");
      const size_t end = field_end(text, at);
      field(form.part(at, end - at), nested, out);
      at = end + 1;
    }
    return out.finish();
  }

 private:
  static size_t field_end(std::string_view text, size_t at) {
    int depth = 1;
    bool in_key = false;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (in_key) {
        in_key = c != ']';
        continue;
      }
      if (c == '[') in_key = true;
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) return at;
    }
    raise(Fault::kValueError, "expected '}}' before end of string");
  }

  void field(const Text& content, bool nested, TextBuilder& out) {
    const std::string_view text = content.view();
    size_t name_end = 0;
    while (name_end < text.size() && text[name_end] != '!' && text[name_end] != ':') {
      if (text[name_end] == '[') name_end = std::min(text.find(']', name_end), text.size() - 1);
      ++name_end;
    }
    Value value = named(text.substr(0, name_end));
    size_t at = name_end;
    if (at < text.size() && text[at] == '!') {
      const char conversion = at + 1 < text.size() ? text[at + 1] : ' ';
      if (conversion != 'r' && conversion != 's' && conversion != 'a') {
        raise(Fault::kValueError, "Unknown conversion specifier '{}'", conversion);
      }
      value = Value::of(conversion == 's' ? to_text(run_.heap(), value) : repr(run_.heap(), value));
      at += 2;
    }
    if (at < text.size() && text[at] != ':')
      raise(Fault::kValueError, "expected ':' after conversion specifier");
    Text spec = at < text.size() ? content.part(at + 1, text.size() - at - 1) : empty_text();
    if (spec.view().find('{') != std::string_view::npos) {
      if (nested) raise(Fault::kValueError, "Max string recursion exceeded");
      spec = format(spec, true);
    }
    format_value(run_.heap(), value, parse_spec(spec.view()), out);
  }

  /// `name`, `0`, or nothing, and then .attributes and [keys].
  Value named(std::string_view text) {
    const size_t end = std::min(text.find_first_of(".["), text.size());
    Value value = argument(text.substr(0, end));
    for (size_t at = end; at < text.size();) {
      const bool is_key = text[at] == '[';
      const size_t stop =
          std::min(is_key ? text.find(']', at) : text.find_first_of(".[", at + 1), text.size());
      const std::string_view name = text.substr(at + 1, stop - at - 1);
      if (name.empty()) raise(Fault::kValueError, "Empty attribute in format string");
      const Value key = make_text_value(run_.heap(), name);
      const bool number = is_key && name.find_first_not_of("0123456789") == std::string_view::npos;
      if (number) {
        value = run_.item(value, integer_of_digits(run_.heap(), name, Origin::kTemplate));
      } else {
        value = is_key ? run_.item(value, key) : run_.attribute(value, key);
      }
      at = is_key ? stop + 1 : stop;
    }
    return value;
  }

  Value argument(std::string_view name) {
    const bool is_number = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) {
      if (name.size() > 9) raise(Fault::kValueError, "Too many decimal digits in format string");
      if (numbering_ != Numbering::kOpen && (numbering_ == Numbering::kAutomatic) != name.empty()) {
        raise(Fault::kValueError,
              "cannot switch between manual field specification and automatic field numbering");
      }
      numbering_ = name.empty() ? Numbering::kAutomatic : Numbering::kManual;
      const size_t index = name.empty() ? next_++ : static_cast<size_t>(std::stoul(std::string(name)));
      if (index < given_.positional.size()) return given_.positional[index];
      raise(Fault::kIndexError, "Replacement index {} out of range for positional args tuple", index);
    }
    for (const Entry& keyword : given_.keywords) {
      if (keyword.key.view() == name) return keyword.value;
    }
    raise(Fault::kKeyError, "'{}'", name);
  }

  enum class Numbering : uint8_t { kOpen, kAutomatic, kManual };

  Interpreter& run_;
  const Arguments& given_;
  Numbering numbering_ = Numbering::kOpen;
  size_t next_ = 0;
};

}  // namespace

Text format_braces(Interpreter& run, const Text& form, const Arguments& given) {
  Text made = BraceFormatter(run, given).format(form, false);
  made.markup = form.markup;
  return made;
}

}  // namespace slip::text::jinja
