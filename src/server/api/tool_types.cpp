#include "server/api/tool_types.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "server/api/json_text.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;
constexpr std::string_view kTypes[] = {"string", "integer", "number", "boolean", "null", "object", "array"};

/// The types that a schema allows, as far as it says so plainly; empty: any.
void add_types(const json& schema, int depth, std::vector<std::string_view>& types) {
  if (!schema.is_object() || depth > kDeepest) return;
  const auto add = [&](const json& name) {
    if (!name.is_string()) return;
    for (const std::string_view known : kTypes) {
      // Google's own schemas write STRING.
      const auto& text = name.get_ref<const std::string&>();
      if (std::equal(text.begin(), text.end(), known.begin(), known.end(),
                     [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; }))
        types.push_back(known);
    }
  };
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_array()) {
      for (const json& one : *type) add(one);
    } else {
      add(*type);
    }
  }
  if (schema.value("nullable", json()) == true) types.push_back("null");
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto found = schema.find(key);
    if (found == schema.end() || !found->is_array()) continue;
    for (const json& one : *found) add_types(one, depth + 1, types);
  }
}

bool is_type(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  }
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return type == "object" ? value.is_object() : value.is_array();
}

/// The value as `type`, where nothing is lost by it.
std::optional<Json> converted(const Json& value, std::string_view type) {
  if (type == "string") {
    if (value.is_number() || value.is_boolean()) return Json(value.dump());
    return std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  std::string text = value.get<std::string>();
  if (type == "boolean" && (text == "True" || text == "False")) text[0] = text[0] == 'T' ? 't' : 'f';
  const Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded() || !is_type(parsed, type)) return std::nullopt;
  return parsed;
}

void fit(Json& value, const json& schema, int depth) {
  if (!schema.is_object() || depth > kDeepest) return;
  std::vector<std::string_view> types;
  add_types(schema, depth, types);
  const bool fits = types.empty() || std::any_of(types.begin(), types.end(),
                                                 [&](std::string_view type) { return is_type(value, type); });
  if (!fits) {
    for (const std::string_view type : types) {
      if (auto better = converted(value, type)) {
        value = std::move(*better);
        break;
      }
    }
  }
  if (value.is_object()) {
    const auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object()) return;
    for (auto& [key, member] : value.items()) {
      if (const auto of = properties->find(key); of != properties->end()) fit(member, *of, depth + 1);
    }
  } else if (value.is_array()) {
    const auto items = schema.find("items");
    if (items == schema.end()) return;
    for (Json& item : value) fit(item, *items, depth + 1);
  }
}

}  // namespace

std::string typed_arguments(const std::string& arguments, const json& schema) {
  Json value = Json::parse(arguments, nullptr, false);
  if (!value.is_object()) return "{}";
  fit(value, schema, 0);
  return to_text(value);
}

}  // namespace slip::server::api
