// Methods of strings that look for something, and those that ask what kind of characters there are.
#include <algorithm>
#include <array>

#include "text/jinja/builtin_help.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {
namespace {

using Given = const Bound&;

/// The characters [start, end) of a string, by arguments as Python clamps them.
struct Stretch {
  std::string_view view;
  size_t byte = 0;       // where it begins
  int64_t start = 0;     // the same in characters
  bool is_valid = true;  // false when it begins behind its end
};

Stretch stretch_of(Interpreter& run, const Text& text, const Value& start, const Value& end) {
  run.heap().charge_bytes(text.size);
  const auto absent = [](const Value& value) { return value.is_missing() || value.is_none(); };
  if (absent(start) && absent(end)) return {text.view()};
  const auto count = static_cast<int64_t>(count_characters(text));
  const auto place = [&](const Value& value, int64_t standard) {
    if (absent(value)) return standard;
    const int64_t at = need_integer(value, 0);
    return at < 0 ? std::max<int64_t>(at + count, 0) : at;
  };
  const int64_t from = place(start, 0);
  const int64_t to = std::min(place(end, count), count);
  if (from > to) return {{}, 0, from, false};
  const size_t begin = byte_of_character(text, static_cast<size_t>(from));
  const size_t stop = byte_of_character(text, static_cast<size_t>(to));
  return {text.view().substr(begin, stop - begin), begin, from, true};
}

template <bool kFromRight>
int64_t find_in(Interpreter& run, const Value& self, Given given) {
  const Text wanted = need_text(given[0]);
  const Stretch stretch = stretch_of(run, self.text(), given[1], given[2]);
  if (!stretch.is_valid) return -1;
  const size_t at = kFromRight ? stretch.view.rfind(wanted.view()) : stretch.view.find(wanted.view());
  if (at == std::string_view::npos) return -1;
  return stretch.start + static_cast<int64_t>(count_characters(self.text().part(stretch.byte, at)));
}

template <bool kFromRight>
Value find(Interpreter& run, const Value& self, Given given) {
  return Value::of(find_in<kFromRight>(run, self, given));
}

template <bool kFromRight>
Value index(Interpreter& run, const Value& self, Given given) {
  const int64_t at = find_in<kFromRight>(run, self, given);
  if (at < 0) raise(Fault::kValueError, "substring not found");
  return Value::of(at);
}

Value count(Interpreter& run, const Value& self, Given given) {
  const std::string_view wanted = need_text(given[0]).view();
  const Stretch stretch = stretch_of(run, self.text(), given[1], given[2]);
  if (!stretch.is_valid) return Value::of(int64_t{0});
  if (wanted.empty()) {
    const Text text = self.text().part(stretch.byte, stretch.view.size());
    return Value::of(static_cast<int64_t>(count_characters(text)) + 1);
  }
  int64_t found = 0;
  for (size_t at = stretch.view.find(wanted); at != std::string_view::npos;
       at = stretch.view.find(wanted, at + wanted.size())) {
    ++found;
  }
  return Value::of(found);
}

template <bool kAtEnd>
Value meets(Interpreter& run, const Value& self, Given given) {
  const Stretch stretch = stretch_of(run, self.text(), given[1], given[2]);
  const auto fits = [&](const Value& wanted) {
    if (!wanted.is_string()) {
      type_error("{} first arg must be str or a tuple of str, not {}", kAtEnd ? "endswith" : "startswith",
                 type_name(wanted));
    }
    if (!stretch.is_valid) return false;
    return kAtEnd ? stretch.view.ends_with(wanted.view()) : stretch.view.starts_with(wanted.view());
  };
  if (!given[0].is(Kind::kTuple)) return Value::of(fits(given[0]));
  const auto all = given[0].items();
  return Value::of(std::any_of(all.begin(), all.end(), fits));
}

/// Whether all characters pass, and there are any (or `empty` is the answer for none).
template <bool (*kTest)(char32_t), bool kEmpty = false>
Value all_are(Interpreter& run, const Value& self, Given) {
  const std::string_view view = self.view();
  run.heap().charge_bytes(view.size());
  if (view.empty()) return Value::of(kEmpty);
  for (size_t at = 0; at < view.size();) {
    const Character character = character_at(view, at);
    if (!kTest(character.code)) return Value::of(false);
    at += character.size;
  }
  return Value::of(true);
}

bool is_ascii(char32_t code) {
  return code < 0x80;
}
bool is_alphanumeric(char32_t code) {
  return is_alpha(code) || is_numeric(code);
}

/// Cased letters, all of the one case.
template <bool (*kTest)(char32_t), bool (*kOther)(char32_t)>
Value all_cased(Interpreter& run, const Value& self, Given) {
  const std::string_view view = self.view();
  run.heap().charge_bytes(view.size());
  bool any = false;
  for (size_t at = 0; at < view.size();) {
    const Character character = character_at(view, at);
    if (kOther(character.code) || is_title(character.code)) return Value::of(false);
    any = any || kTest(character.code);
    at += character.size;
  }
  return Value::of(any);
}

Value istitle(Interpreter& run, const Value& self, Given) {
  const std::string_view view = self.view();
  run.heap().charge_bytes(view.size());
  bool any = false;
  bool inside = false;
  for (size_t at = 0; at < view.size();) {
    const Character character = character_at(view, at);
    const bool starts = is_upper(character.code) || is_title(character.code);
    const bool goes_on = is_lower(character.code);
    if (starts == inside && (starts || goes_on)) return Value::of(false);
    inside = starts || goes_on;
    any = any || inside;
    at += character.size;
  }
  return Value::of(any);
}

Value isidentifier(Interpreter&, const Value& self, Given) {
  return Value::of(is_identifier(self.view()));
}

constexpr auto kSearches = std::to_array<Builtin>({
    {"find", find<false>, "/sub,start,end", 1},
    {"rfind", find<true>, "/sub,start,end", 1},
    {"index", index<false>, "/sub,start,end", 1},
    {"rindex", index<true>, "/sub,start,end", 1},
    {"count", count, "/sub,start,end", 1},
    {"startswith", meets<false>, "/prefix,start,end", 1},
    {"endswith", meets<true>, "/suffix,start,end", 1},
});

constexpr auto kClasses = std::to_array<Builtin>({
    {"isalpha", all_are<is_alpha>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isspace", all_are<is_space>},
    {"isprintable", all_are<is_printable, true>},
    {"isascii", all_are<is_ascii, true>},
    {"isupper", all_cased<is_upper, is_lower>},
    {"islower", all_cased<is_lower, is_upper>},
    {"istitle", istitle},
    {"isidentifier", isidentifier},
});

}  // namespace

std::span<const Builtin> string_searches() {
  return kSearches;
}
std::span<const Builtin> string_classes() {
  return kClasses;
}

}  // namespace slip::text::jinja
