// What a template can call or pipe into: filters, tests, methods and global functions, all of one shape, and
// macros. A Builtin names its parameters, so that arguments are bound in one place.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/dict.h"
#include "text/jinja/value.h"

namespace slip::text::jinja {

class Interpreter;
struct MacroDefinition;
struct Frame;

struct Arguments {
  std::span<const Value> positional = {};
  std::span<const Entry> keywords = {};
};

/// Arguments by the place of their parameter; what was not given is missing.
struct Bound {
  static constexpr size_t kMost = 6;
  std::array<Value, kMost> values;
  const Arguments* all = nullptr;  // for those that take any number

  const Value& operator[](size_t i) const { return values[i]; }
  bool has(size_t i) const { return !values[i].is_missing(); }
};

struct Builtin {
  using Function = Value (*)(Interpreter& run, const Value& self, const Bound& given);

  std::string_view name;
  Function function = nullptr;
  /// Names with commas between them. A leading "/" makes them positional only, a lone "*" means any.
  std::string_view parameters = {};
  uint8_t required = 0;
  bool is_unsafe = false;  // changes what it belongs to, so the sandbox refuses it
  bool is_lazy = false;    // a generator in Python: works, and fails, when its result is first walked
};

/// Binds and calls. TypeError when the arguments do not fit.
Value call(Interpreter& run, const Builtin& builtin, const Value& self, const Arguments& given);

/// Null when there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
/// A method of values of that kind, unsafe ones included.
const Builtin* find_method(Kind kind, std::string_view name);

/// A call that waits.
struct Pending {
  Interpreter* run;
  const Builtin* builtin;
  Value self;
  Bound bound;
  Arguments given;
};
/// What it gives, as items.
std::span<const Value> finish(Pending& pending);

struct Macro {
  const MacroDefinition* definition = nullptr;
  Frame* frame = nullptr;  // where it was defined
};
std::string_view name_of(const Macro& macro);

// The tables, one for each file of them.
std::span<const Builtin> text_filters();
std::span<const Builtin> html_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> list_filters();
std::span<const Builtin> selecting_filters();
std::span<const Builtin> sorting_filters();
std::span<const Builtin> all_tests();
std::span<const Builtin> string_methods();
std::span<const Builtin> string_searches();
std::span<const Builtin> string_classes();
std::span<const Builtin> other_methods(Kind kind);

}  // namespace slip::text::jinja
