// Fields: the fields of a JSON object in a request, read with their type and range checked. A field that is wrong is a
// 400 that names it by its path ("stream_options.include_usage"); one that nobody asks for is ignored; null counts as
// absent, since clients write many of them. A view: the body must outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slip::server::api {

/// The body of a request. Throws ApiError: no JSON, a key given twice, nested too deep.
nlohmann::json parse_body(std::string_view body);

class Fields {
 public:
  /// `path`: where the object stands; empty for the body itself. Throws ApiError when it is no object.
  explicit Fields(const nlohmann::json& value, std::string path = "");

  /// The value, or nullptr when it is absent or null.
  const nlohmann::json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  std::string path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  /// A number with a fraction of zero counts as whole.
  std::optional<int64_t> integer(const char* key, int64_t low, int64_t high) const;
  std::optional<double> number(const char* key, double low, double high) const;
  /// `above`: the lowest value itself is not allowed.
  std::optional<double> number_above(const char* key, double above, double high) const;
  std::optional<bool> boolean(const char* key) const;
  bool boolean_or(const char* key, bool otherwise) const { return boolean(key).value_or(otherwise); }
  std::optional<std::string> text(const char* key) const;
  /// Throws when it is absent.
  std::string need_text(const char* key) const;
  std::optional<Fields> object(const char* key) const;
  /// Token ids within the vocabulary.
  std::optional<std::vector<int>> ids(const char* key, int vocab) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

/// What a value is, for messages: "a string", "the number 1.5".
std::string kind_text(const nlohmann::json& value);
/// One token id. `path` names it.
int read_id(const nlohmann::json& value, const std::string& path, int vocab);

}  // namespace slip::server::api
