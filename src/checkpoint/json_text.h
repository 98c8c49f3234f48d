// Reading JSON that somebody else wrote. parse_json() refuses what a careless parser lets through (a key
// given twice, nesting without end), and JsonObject reads fields with their type and range checked, so that
// every fault becomes one sentence that names the file and the field. A null counts as absent: Hugging Face
// writes many of them. A JsonObject is a view: the parsed document must outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slip::checkpoint {

/// Throws Error(kBadFile) when the text is not JSON, is nested deeper than 64, or has one key twice in an
/// object.
nlohmann::json parse_json(std::string_view text, const std::string& file);

/// A name from a file, fit for a message: in quotes, control characters replaced, at most 120 characters.
std::string in_quotes(std::string_view name);

/// The part of a JSON library's message that says where and what, without its own name in front.
std::string json_fault(const char* what);

class JsonObject {
 public:
  /// `path` is where the object stands in the file: "" at the top, else "text_config". Throws when it is no
  /// object.
  JsonObject(const nlohmann::json& value, std::string file, std::string path = "");

  bool has(const std::string& key) const { return find(key) != nullptr; }
  /// The value, or nullptr when it is absent or null.
  const nlohmann::json* find(const std::string& key) const;
  /// There at all, be it null.
  bool mentions(const std::string& key) const;
  std::vector<std::string> keys() const;

  std::optional<int64_t> integer(const std::string& key, int64_t low, int64_t high) const;
  /// Throws when absent.
  int64_t need_integer(const std::string& key, int64_t low, int64_t high) const;
  std::optional<double> number(const std::string& key, double low, double high) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::optional<JsonObject> object(const std::string& key) const;
  std::optional<std::vector<std::string>> texts(const std::string& key) const;
  /// Token ids: one number or a list of them, each within the vocabulary.
  std::optional<std::vector<int>> ids(const std::string& key, int vocab) const;

  const std::string& file() const { return file_; }
  /// "text_config.hidden_size"
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  [[noreturn]] void wrong(const std::string& key, const nlohmann::json& value,
                          const std::string& wanted) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace slip::checkpoint
