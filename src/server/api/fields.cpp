#include "server/api/fields.h"

#include <fmt/format.h>

#include <cmath>

#include "checkpoint/json_text.h"
#include "server/api/error.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

/// A whole number, however it is written; nothing for 2^64 and above, 1.5 and the like.
std::optional<int64_t> whole(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(INT64_MAX) ? std::optional(static_cast<int64_t>(number))
                                                      : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (!(std::abs(number) < 0x1p53) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

std::string kind_text(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  return "the number " + value.dump();
}

json parse_body(std::string_view body) {
  if (body.empty()) throw ApiError(400, "invalid_json", "the body is empty; send a JSON object");
  try {
    return checkpoint::parse_json(body, "the body");
  } catch (const Error& error) {
    throw ApiError(400, "invalid_json", error.what());
  }
}

Fields::Fields(const json& value, std::string path) : value_(&value), path_(std::move(path)) {
  if (value.is_object()) return;
  if (path_.empty())
    throw ApiError(400, "invalid_json",
                   fmt::format("the body must be a JSON object, not {}", kind_text(value)));
  fail_field(path_, "must be an object, not {}", kind_text(value));
}

const json* Fields::find(const char* key) const {
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> Fields::integer(const char* key, int64_t low, int64_t high) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = whole(*value);
  if (!number || *number < low || *number > high) {
    fail_field(path(key), "must be a whole number from {} to {}, not {}", low, high, kind_text(*value));
  }
  return number;
}

std::optional<double> Fields::number(const char* key, double low, double high) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= low && number <= high))
    fail_field(path(key), "must be a number from {:g} to {:g}, not {}", low, high, kind_text(*value));
  return number;
}

std::optional<double> Fields::number_above(const char* key, double above, double high) const {
  const auto number = this->number(key, above, high);
  if (number && *number <= above) fail_field(path(key), "must be above {:g}, not {:g}", above, *number);
  return number;
}

std::optional<bool> Fields::boolean(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_field(path(key), "must be true or false, not {}", kind_text(*value));
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_field(path(key), "must be a string, not {}", kind_text(*value));
  return value->get<std::string>();
}

std::string Fields::need_text(const char* key) const {
  auto found = text(key);
  if (!found) fail_field(path(key), "is missing");
  return std::move(*found);
}

std::optional<Fields> Fields::object(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, path(key));
}

std::optional<std::vector<int>> Fields::ids(const char* key, int vocab) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) fail_field(path(key), "must be a list of token ids, not {}", kind_text(*value));
  std::vector<int> ids;
  ids.reserve(value->size());
  for (size_t i = 0; i < value->size(); ++i)
    ids.push_back(read_id((*value)[i], fmt::format("{}[{}]", path(key), i), vocab));
  return ids;
}

int read_id(const json& value, const std::string& path, int vocab) {
  const auto number = whole(value);
  if (!number || *number < 0 || *number >= vocab) {
    fail_field(path, "must be a token id from 0 to {}, not {}", vocab - 1, kind_text(value));
  }
  return static_cast<int>(*number);
}

}  // namespace slip::server::api
