#include "text/jinja/context.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja/failure.h"
#include "text/jinja/iteration.h"
#include "text/jinja/numbers.h"

namespace slip::text::jinja {
namespace {

// What a context may hold is bounded by who reads it; this is only a stop for what cannot be meant.
constexpr Limits kContextLimits{.bytes = size_t{1} << 30, .steps = UINT64_MAX, .depth = 2 * kDeepestContext};

/// Builds values as nlohmann's parser reports them.
class Builder {
 public:
  Builder(Heap& heap, bool is_context) : heap_(heap), is_context_(is_context) {}

  bool null() { return add(Value::none()); }
  bool boolean(bool value) { return add(Value::of(value)); }
  bool number_integer(int64_t value) { return add(Value::of(value, Origin::kForeign)); }
  bool number_unsigned(uint64_t value) {
    if (value <= INT64_MAX) return number_integer(static_cast<int64_t>(value));
    return add(integer_of_digits(heap_, fmt::format("{}", value), Origin::kForeign));
  }
  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") != std::string::npos) return add(Value::of(value, Origin::kForeign));
    try {
      return add(integer_of_digits(heap_, text, Origin::kForeign));
    } catch (const Failure& failure) {
      return stop(failure.message);
    }
  }
  bool string(std::string& text) {
    const bool token = is_context_ && open_.size() == 1 && open_[0].dict != nullptr &&
                       std::string_view(keys_.back()).ends_with("_token");
    return add(Value::of(make_text(heap_, text, token ? Origin::kTemplate : Origin::kForeign)));
  }
  bool binary(nlohmann::json::binary_t&) { return stop("holds binary data"); }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool key(std::string& text) {
    keys_.push_back(text);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& exception) {
    std::string what = exception.what();
    if (const size_t colon = what.find("] "); colon != std::string::npos) what.erase(0, colon + 2);
    return stop(fmt::format("at byte {}: {}", position, what));
  }

  const Value& result() const { return result_; }
  const std::string& fault() const { return fault_; }

 private:
  struct Open {
    Dict* dict;
    Growing<Value> items;
  };

  bool stop(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  bool open(bool is_object) {
    if (open_.size() >= kDeepestContext)
      return stop(fmt::format("is nested more than {} deep", kDeepestContext));
    open_.push_back({is_object ? heap_.make<Dict>() : nullptr, Growing<Value>(heap_)});
    return true;
  }

  bool close() {
    const Open& done = open_.back();
    const Value value =
        done.dict != nullptr ? Value::of(done.dict) : Value::list({done.items.data(), done.items.size()});
    open_.pop_back();
    return add(value);
  }

  bool add(const Value& value) {
    if (open_.empty()) {
      result_ = value;
      return true;
    }
    Open& top = open_.back();
    if (top.dict != nullptr) {
      set(heap_, *top.dict, Value::of(make_text(heap_, keys_.back(), Origin::kForeign)), value);
      keys_.pop_back();
    } else {
      top.items.push(value);
    }
    return true;
  }

  Heap& heap_;
  bool is_context_;
  std::vector<Open> open_;
  std::vector<std::string> keys_;
  Value result_;
  std::string fault_;
};

Value read(Heap& heap, std::string_view json, const std::string& name, bool is_context) {
  Builder builder(heap, is_context);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) {
    fail_usage("{}: {}", name, builder.fault());
  }
  return builder.result();
}

template <typename Json>
Value convert(Heap& heap, const Json& json, int depth) {
  if (depth > kDeepestContext) fail_usage("a value is nested more than {} deep", kDeepestContext);
  switch (json.type()) {
    case Json::value_t::boolean: return Value::of(json.template get<bool>());
    case Json::value_t::number_integer: return Value::of(json.template get<int64_t>(), Origin::kForeign);
    case Json::value_t::number_unsigned: {
      const auto number = json.template get<uint64_t>();
      if (number <= INT64_MAX) return Value::of(static_cast<int64_t>(number), Origin::kForeign);
      return integer_of_digits(heap, fmt::format("{}", number), Origin::kForeign);
    }
    case Json::value_t::number_float: return Value::of(json.template get<double>(), Origin::kForeign);
    case Json::value_t::string:
      return Value::of(make_text(heap, json.template get_ref<const std::string&>(), Origin::kForeign));
    case Json::value_t::array: {
      Growing<Value> items(heap);
      items.reserve(json.size());
      for (const auto& item : json) items.push(convert(heap, item, depth + 1));
      return Value::list({items.data(), items.size()});
    }
    case Json::value_t::object: {
      auto* dict = heap.make<Dict>();
      for (const auto& [key, value] : json.items()) {
        set(heap, *dict, Value::of(make_text(heap, key, Origin::kForeign)), convert(heap, value, depth + 1));
      }
      return Value::of(dict);
    }
    default: return Value::none();
  }
}

}  // namespace

Context::Context() : heap_(std::make_unique<Heap>(kContextLimits)), names_(heap_->make<Dict>()) {}

Context Context::parse(std::string_view json, const std::string& name) {
  Context context;
  const Value value = read(*context.heap_, json, name, true);
  if (!value.is(Kind::kDict)) fail_usage("{}: must be one JSON object", name);
  context.names_ = value.dict();
  context.bytes_ = json.size();
  return context;
}

Value Context::parse_value(std::string_view json, const std::string& name) {
  bytes_ += json.size();
  return read(*heap_, json, name, false);
}

Value Context::value_of(const nlohmann::json& json) {
  const size_t before = heap_->used();
  const Value value = convert(*heap_, json, 0);
  bytes_ += heap_->used() - before;
  return value;
}

Value Context::value_of(const nlohmann::ordered_json& json) {
  const size_t before = heap_->used();
  const Value value = convert(*heap_, json, 0);
  bytes_ += heap_->used() - before;
  return value;
}

Value Context::text(std::string_view text, Origin origin) {
  bytes_ += text.size();
  return Value::of(make_text(*heap_, text, origin));
}

void Context::set(std::string_view name, const Value& value) {
  jinja::set(*heap_, *names_, name, value);
}

}  // namespace slip::text::jinja
