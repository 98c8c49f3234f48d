// Context: what a template sees, by name. Read from JSON with the order of keys kept and with 2 and 2.0 told
// apart; integers of any length keep their digits.
//
// All of it is foreign (rendered.h), except texts whose name ends in "_token" (bos_token, eos_token): whoever
// fills the context takes those from the tokenizer, never from a request.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/jinja/dict.h"
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace slip::text::jinja {

/// Values nested deeper than this are refused.
inline constexpr int kDeepestContext = 256;

class Context {
 public:
  Context();
  /// One JSON object. Throws Error(kUsage) that names `name` and the place.
  static Context parse(std::string_view json, const std::string& name);

  /// A value from JSON text, for set(). Throws as parse() does.
  Value parse_value(std::string_view json, const std::string& name);
  /// From a value read before; ordered_json keeps the order of keys, json has them sorted.
  Value value_of(const nlohmann::json& json);
  Value value_of(const nlohmann::ordered_json& json);
  Value text(std::string_view text, Origin origin = Origin::kForeign);

  void set(std::string_view name, const Value& value);
  const Dict& names() const { return *names_; }
  Heap& heap() { return *heap_; }
  /// How much text went in: what the limits of a rendering grow with.
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<Heap> heap_;
  Dict* names_;
  size_t bytes_ = 0;
};

}  // namespace slip::text::jinja
