#include "checkpoint/json_text.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace slip::checkpoint {

namespace {

// No file of a model is nested deeper than a handful; the limit keeps a hostile one from growing the parser's
// stack.
constexpr int kDeepest = 64;
constexpr size_t kLongestShown = 120;

/// Follows a parse and remembers the keys of every object that is still open.
class Watcher {
 public:
  explicit Watcher(const std::string& file) : file_(file) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kDeepest) fail_file("{}: is nested more than {} levels deep", file_, kDeepest);
    switch (event) {
      case Event::object_start: open_.emplace_back(); break;
      case Event::object_end: open_.pop_back(); break;
      case Event::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open_.back().insert(key).second) {
          fail_file("{}: the key {} is there twice in one object; keep one of them", file_, in_quotes(key));
        }
        break;
      }
      default: break;
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> open_;
};

std::string plain_number(double value) {
  return fmt::format("{:g}", value);
}

std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace

std::string in_quotes(std::string_view name) {
  std::string text = "'";
  for (const char c : name.substr(0, kLongestShown)) {
    const auto byte = static_cast<unsigned char>(c);  // char has no sign on arm
    text += byte < ' ' || byte == 0x7f ? '?' : c;
  }
  return text + (name.size() > kLongestShown ? "...'" : "'");
}

std::string json_fault(const char* what) {
  const std::string_view text = what;
  const size_t start = text.find("] ");
  return std::string(start == std::string_view::npos ? text : text.substr(start + 2));
}

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  Watcher watcher(file);
  try {
    return nlohmann::json::parse(text, std::ref(watcher));
  } catch (const nlohmann::json::exception& fault) {
    fail_file("{}: is not valid JSON: {}", file, json_fault(fault.what()));
  }
}

JsonObject::JsonObject(const nlohmann::json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {
  if (value.is_object()) return;
  if (path_.empty()) fail_file("{}: must hold one JSON object, found {}", file_, shown(value));
  fail_file("{}: {} must be an object, found {}", file_, path_, shown(value));
}

const nlohmann::json* JsonObject::find(const std::string& key) const {
  const auto at = value_->find(key);
  return at == value_->end() || at->is_null() ? nullptr : &*at;
}

bool JsonObject::mentions(const std::string& key) const {
  return value_->contains(key);
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : value_->items()) keys.push_back(key);
  return keys;
}

void JsonObject::wrong(const std::string& key, const nlohmann::json& value, const std::string& wanted) const {
  fail_file("{}: {} must be {}, found {}", file_, path_of(key), wanted, shown(value));
}

std::optional<int64_t> JsonObject::integer(const std::string& key, int64_t low, int64_t high) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto wanted = [&] { return fmt::format("a whole number from {} to {}", low, high); };
  if (!value->is_number_integer()) wrong(key, *value, wanted());
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    wrong(key, *value, wanted());
  }
  const auto number = value->get<int64_t>();
  if (number < low || number > high) wrong(key, *value, wanted());
  return number;
}

int64_t JsonObject::need_integer(const std::string& key, int64_t low, int64_t high) const {
  const auto value = integer(key, low, high);
  if (!value)
    fail_file("{}: {} is missing; it must be a whole number from {} to {}", file_, path_of(key), low, high);
  return *value;
}

std::optional<double> JsonObject::number(const std::string& key, double low, double high) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto wanted = [&] { return "a number from " + plain_number(low) + " to " + plain_number(high); };
  if (!value->is_number()) wrong(key, *value, wanted());
  const auto number = value->get<double>();
  if (!(number >= low && number <= high)) wrong(key, *value, wanted());
  return number;
}

std::optional<bool> JsonObject::boolean(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonObject::text(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(key, *value, "a string");
  return value->get<std::string>();
}

std::optional<JsonObject> JsonObject::object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  return JsonObject(*value, file_, path_of(key));
}

std::optional<std::vector<std::string>> JsonObject::texts(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) wrong(key, *value, "a list of strings");
  std::vector<std::string> texts;
  for (const auto& element : *value) {
    if (!element.is_string()) wrong(key, element, "a list of strings");
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

std::optional<std::vector<int>> JsonObject::ids(const std::string& key, int vocab) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto wanted = fmt::format("a token id from 0 to {}, or a list of them", vocab - 1);
  std::vector<int> ids;
  const auto take = [&](const nlohmann::json& id) {
    if (!id.is_number_integer()) wrong(key, id, wanted);
    // A negative one reads as a huge unsigned number and is refused with it.
    const auto number = id.get<uint64_t>();
    if (number >= static_cast<uint64_t>(vocab)) wrong(key, id, wanted);
    ids.push_back(static_cast<int>(number));
  };
  if (value->is_array()) {
    for (const auto& id : *value) take(id);
  } else {
    take(*value);
  }
  return ids;
}

}  // namespace slip::checkpoint
