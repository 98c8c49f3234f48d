#include "text/tool_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace slip::text {
namespace {

using nlohmann::json;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string upper(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

bool less_without_case(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return static_cast<unsigned char>(lower(x)) < static_cast<unsigned char>(lower(y));
  });
}

using Field = std::pair<std::string_view, const json*>;

// Keys that differ only in case come in byte order.
std::vector<Field> sorted_fields(const json& object) {
  std::vector<Field> fields;
  for (const auto& [key, value] : object.get_ref<const json::object_t&>()) fields.emplace_back(key, &value);
  std::stable_sort(fields.begin(), fields.end(),
                   [](const Field& a, const Field& b) { return less_without_case(a.first, b.first); });
  return fields;
}

const json& field(const json& object, const char* key) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

// What a template takes for true.
bool truthy(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

// As Python prints it: the shortest digits that read back the same, and never without a point or an exponent.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string plain_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) return float_text(value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

enum class Keys { kBare, kQuoted };

struct Spelling {
  Keys keys = Keys::kBare;
  std::string_view null = "None";
};

/// Writes `items` with commas between them.
template <typename Items, typename Write>
void write_list(const Items& items, PromptWriter& out, Write write) {
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) out.text(",");
    write(item);
  }
}

void write_value(const json& value, Spelling spelling, PromptWriter& out);

void write_fields(const json& object, Spelling spelling, PromptWriter& out) {
  write_list(sorted_fields(object), out, [&](const Field& entry) {
    if (spelling.keys == Keys::kQuoted) {
      out.quoted(entry.first);
    } else {
      out.text(entry.first);
    }
    out.text(":");
    write_value(*entry.second, spelling, out);
  });
}

void write_value(const json& value, Spelling spelling, PromptWriter& out) {
  if (value.is_string()) {
    out.quoted(value.get_ref<const std::string&>());
  } else if (value.is_boolean()) {
    out.text(value.get<bool>() ? "true" : "false");
  } else if (value.is_object()) {
    out.text("{");
    write_fields(value, spelling, out);
    out.text("}");
  } else if (value.is_array()) {
    out.text("[");
    write_list(value, out, [&](const json& item) { write_value(item, spelling, out); });
    out.text("]");
  } else {
    out.text(value.is_null() ? std::string(spelling.null) : plain_text(value));
  }
}

void write_type(const json& type, PromptWriter& out) {
  out.text("type:");
  if (!type.is_array()) return out.quoted(type.is_null() ? "" : upper(plain_text(type)));
  out.text("[");
  write_list(type, out, [&](const json& one) { out.quoted(upper(plain_text(one))); });
  out.text("]");
}

void write_required(const json& required, PromptWriter& out) {
  out.text("required:[");
  if (required.is_array()) {
    write_list(required, out, [&](const json& name) { out.quoted(plain_text(name)); });
  }
  out.text("]");
}

bool is_type(const json& schema, std::string_view name) {
  const json& type = field(schema, "type");
  return type.is_string() && upper(type.get<std::string>()) == name;
}

// A list of types is printed as Python prints a list, in capitals: the template knows one type for a
// property.
std::string type_text(const json& type) {
  if (!type.is_array()) return upper(plain_text(type));
  std::string text;
  for (const json& one : type) {
    if (!text.empty()) text += ", ";
    text += one.is_string() ? "'" + one.get<std::string>() + "'" : plain_text(one);
  }
  return upper("[" + text + "]");
}

void write_properties(const json& properties, bool of_a_schema, PromptWriter& out);

void write_items(const json& items, PromptWriter& out) {
  out.text("items:{");
  std::vector<Field> fields = sorted_fields(items);
  std::erase_if(fields, [](const Field& entry) { return entry.second->is_null(); });
  write_list(fields, out, [&](const Field& entry) {
    const auto& [key, value] = entry;
    if (key == "properties") {
      out.text("properties:{");
      if (value->is_object()) write_properties(*value, false, out);
      out.text("}");
    } else if (key == "required") {
      write_required(*value, out);
    } else if (key == "type") {
      write_type(*value, out);
    } else {
      out.text(key);
      out.text(":");
      write_value(*value, {.keys = Keys::kQuoted}, out);
    }
  });
  out.text("}");
}

void write_property(const json& schema, PromptWriter& out) {
  const auto comma_after = [&](auto write) {
    write();
    out.text(",");
  };
  if (const json& description = field(schema, "description"); truthy(description)) {
    comma_after([&] {
      out.text("description:");
      out.quoted(plain_text(description));
    });
  }
  if (const json& choices = field(schema, "enum"); is_type(schema, "STRING") && truthy(choices)) {
    comma_after([&] {
      out.text("enum:");
      write_value(choices, {.keys = Keys::kQuoted}, out);
    });
  }
  if (const json& items = field(schema, "items");
      is_type(schema, "ARRAY") && items.is_object() && !items.empty()) {
    comma_after([&] { write_items(items, out); });
  }
  if (truthy(field(schema, "nullable"))) comma_after([&] { out.text("nullable:true"); });
  if (is_type(schema, "OBJECT")) {
    const json& properties = field(schema, "properties");
    comma_after([&] {
      out.text("properties:{");
      // An object that lists no properties may have them among its own fields.
      write_properties(properties.is_object() ? properties : schema, !properties.is_object(), out);
      out.text("}");
    });
    const json& required = field(schema, "required");
    if (truthy(required)) comma_after([&] { write_required(required, out); });
  }
  out.text("type:");
  out.quoted(schema.is_object() && schema.contains("type") ? type_text(schema["type"]) : "");
}

/// `of_a_schema`: the fields are those of a schema, so its own keywords are left out.
void write_properties(const json& properties, bool of_a_schema, PromptWriter& out) {
  static constexpr std::string_view kKeywords[] = {"description", "type", "properties", "required",
                                                   "nullable"};
  std::vector<Field> fields = sorted_fields(properties);
  std::erase_if(fields, [&](const Field& entry) {
    return of_a_schema &&
           std::find(std::begin(kKeywords), std::end(kKeywords), entry.first) != std::end(kKeywords);
  });
  write_list(fields, out, [&](const Field& entry) {
    out.text(entry.first);
    out.text(":{");
    write_property(*entry.second, out);
    out.text("}");
  });
}

// The closing brace comes with the type, as in the template: a schema without a type stays open.
void write_parameters(const json& schema, PromptWriter& out) {
  out.text(",parameters:{");
  if (const json& properties = field(schema, "properties"); properties.is_object() && !properties.empty()) {
    out.text("properties:{");
    write_properties(properties, false, out);
    out.text("},");
  }
  if (const json& required = field(schema, "required"); truthy(required)) {
    write_required(required, out);
    out.text(",");
  }
  if (const json& type = field(schema, "type"); truthy(type)) {
    out.text("type:");
    out.quoted(type_text(type));
    out.text("}");
  }
}

void write_answer_schema(const json& schema, PromptWriter& out) {
  out.text(",response:{");
  if (const json& description = field(schema, "description"); truthy(description)) {
    out.text("description:");
    out.quoted(plain_text(description));
    out.text(",");
  }
  if (is_type(schema, "OBJECT")) {
    out.text("type:");
    out.quoted("OBJECT");
    out.text("}");
  }
}

// The text is call syntax by agreement, so the quotes in it are quotes. Nothing else in it is control.
void write_with_quotes(std::string_view text, PromptWriter& out) {
  for (size_t at; (at = text.find(mark::kQuote)) != std::string_view::npos;) {
    out.text(text.substr(0, at));
    out.control(mark::kQuote);
    text.remove_prefix(at + mark::kQuote.size());
  }
  out.text(text);
}

}  // namespace

void write_declaration(const Tool& tool, PromptWriter& out) {
  out.control(mark::kTool);
  out.text("declaration:");
  out.text(tool.name);
  out.text("{description:");
  out.quoted(tool.description);
  if (truthy(tool.parameters)) write_parameters(tool.parameters, out);
  if (tool.response.is_object()) write_answer_schema(tool.response, out);
  out.text("}");
  out.control(mark::kToolEnd);
}

void write_call(const ToolCall& call, PromptWriter& out, std::string_view null) {
  out.control(mark::kToolCall);
  out.text("call:");
  out.text(call.name);
  out.text("{");
  if (call.arguments.is_object()) {
    write_fields(call.arguments, {.null = null}, out);
  } else if (call.arguments.is_string()) {
    write_with_quotes(call.arguments.get_ref<const std::string&>(), out);
  }
  out.text("}");
  out.control(mark::kToolCallEnd);
}

void write_response(std::string_view name, const json& result, PromptWriter& out) {
  out.control(mark::kToolResponse);
  out.text("response:");
  out.text(name);
  out.text("{");
  if (result.is_object()) {
    write_fields(result, {}, out);
  } else {
    out.text("value:");
    write_value(result, {}, out);
  }
  out.text("}");
  out.control(mark::kToolResponseEnd);
}

}  // namespace slip::text
