// Value: what a template computes with, as Python has it: None, bool, int, float, str, list, tuple, dict, and
// what jinja2 adds. A value is 24 bytes and copied freely; what it points to lives in a Heap and never
// changes, except for namespaces, loops, cyclers, joiners and iterators.
//
// A string is a window on a TextStore (text_store.h), which knows the origin of each of its bytes. Numbers
// carry an origin too, so that a caller's 7 stays foreign when it is printed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/heap.h"
#include "text/jinja/text_store.h"

namespace slip::text::jinja {

enum class Kind : uint8_t {
  kMissing,  // never seen by a template: no value yet, no argument
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // an integer beyond 64 bits, as its digits; it can be printed and compared, not computed with
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,      // of a dict: its keys, values or items
  kIterator,  // a generator: can be walked once
  kNamespace,
  kLoop,
  kMacro,
  kFunction,  // a global function
  kMethod,    // a method with the value it belongs to
  kCycler,
  kJoiner,
  kSelf,   // the template's own blocks
  kBlock,  // one of them
};

class Value;
struct Undefined;
struct Dict;
struct Range;
struct DictView;
struct Iterator;
struct Loop;
struct Macro;
struct Method;
struct Cycler;
struct Joiner;
struct Block;
struct Builtin;

class Value {
 public:
  Value() = default;  // missing

  static Value none() { return Value(Kind::kNone); }
  static Value of(bool truth) {
    Value value(Kind::kBool);
    value.integer_ = truth;
    return value;
  }
  static Value of(int64_t number, Origin origin = Origin::kTemplate) {
    Value value(Kind::kInt);
    value.integer_ = number;
    value.origin_ = origin;
    return value;
  }
  static Value of(double number, Origin origin = Origin::kTemplate) {
    Value value(Kind::kFloat);
    value.real_ = number;
    value.origin_ = origin;
    return value;
  }
  static Value of(const Text& text, Kind kind = Kind::kString) {
    Value value(kind);
    value.store_ = text.store;
    value.begin_ = text.begin;
    value.size_ = text.size;
    value.markup_ = text.markup;
    return value;
  }
  static Value list(std::span<const Value> items, Kind kind = Kind::kList) {
    Value value(kind);
    value.items_ = items.data();
    value.size_ = static_cast<uint32_t>(items.size());
    return value;
  }
  static Value tuple(std::span<const Value> items) { return list(items, Kind::kTuple); }
  static Value of(const Dict* dict, Kind kind = Kind::kDict) { return pointing(kind, dict); }
  static Value of(const Undefined* undefined) { return pointing(Kind::kUndefined, undefined); }
  template <typename T>
  static Value pointing(Kind kind, const T* thing) {
    Value value(kind);
    value.thing_ = const_cast<T*>(thing);
    return value;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  /// bool counts as int, as in Python.
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integer() || kind_ == Kind::kFloat; }

  /// Only of that kind.
  bool truth() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  double real() const { return kind_ == Kind::kFloat ? real_ : static_cast<double>(integer_); }
  Text text() const { return {store_, begin_, size_, markup_}; }
  std::string_view view() const { return {store_->data + begin_, size_}; }
  std::span<const Value> items() const { return {items_, size_}; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(thing_);
  }
  Dict* dict() const { return static_cast<Dict*>(thing_); }
  /// Where a number came from.
  Origin origin() const { return origin_; }
  /// Of a tuple that groupby() made: its halves have the names `grouper` and `list`.
  bool is_group() const { return markup_; }
  Value as_group() const {
    Value value = *this;
    value.markup_ = true;
    return value;
  }
  /// The same object, as Python's `is` finds.
  bool same(const Value& other) const {
    return kind_ == other.kind_ && integer_ == other.integer_ && size_ == other.size_ &&
           begin_ == other.begin_;
  }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kMissing;
  Origin origin_ = Origin::kTemplate;
  bool markup_ = false;
  uint32_t begin_ = 0;
  uint32_t size_ = 0;
  union {
    int64_t integer_ = 0;
    double real_;
    TextStore* store_;
    const Value* items_;
    void* thing_;
  };
};
static_assert(sizeof(Value) == 24);

/// The name Python gives the type, as in "str".
std::string_view type_name(const Value& value);

struct Range {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
  Origin origin = Origin::kTemplate;
  int64_t stop = 0;
  Value at(int64_t index) const { return Value::of(start + index * step, origin); }
};

struct DictView {
  enum class Part : uint8_t { kKeys, kValues, kItems };
  Part part = Part::kKeys;
  const Dict* dict = nullptr;
};

struct Pending;

struct Iterator {
  std::span<const Value> items;
  uint32_t next = 0;
  Pending* pending = nullptr;  // what has yet to give the items
};

struct Method {
  const Builtin* builtin = nullptr;
  Value self;
};

struct Cycler {
  std::span<const Value> items;
  uint32_t position = 0;
};

struct Joiner {
  Value separator;
  bool used = false;
};

/// Why a value is undefined: what a template sees when it uses it.
struct Undefined {
  enum class Why : uint8_t { kName, kAttribute, kElement, kUnsafe, kHint };
  Why why = Why::kName;
  Kind owner = Kind::kMissing;
  std::string_view name = {};  // or the hint itself
};

/// Fails as jinja2 does when an undefined value is used.
[[noreturn]] void refuse(const Undefined& undefined);
/// The same for any value that is undefined; others pass.
inline void demand_defined(const Value& value) {
  if (value.is_undefined()) refuse(*value.as<Undefined>());
}

Value undefined_hint(Heap& heap, std::string_view hint);

}  // namespace slip::text::jinja
