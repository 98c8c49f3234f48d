#include "server/api/tool_choice.h"

#include <algorithm>
#include <cctype>

#include "server/api/error.h"

namespace slip::server::api {
namespace {

constexpr size_t kLongestName = 256;

// What a call's parser can read back.
bool is_callable(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isalnum(byte) != 0 || byte >= 0x80 ||
           std::string_view("_.-:/").find(c) != std::string_view::npos;
  });
}

}  // namespace

void require_callable(std::string_view name, const std::string& where) {
  if (is_callable(name)) return;
  fail_field(where, "must be 1 to {} letters, digits or _ . - : /, without spaces", kLongestName);
}

void require_tool(std::span<const text::Tool> tools, std::string_view name, const std::string& where) {
  const bool known =
      std::any_of(tools.begin(), tools.end(), [&](const text::Tool& tool) { return tool.name == name; });
  if (!known) fail_field(where, "there is no tool '{}' among tools", name.substr(0, 80));
}

void fail_forced_call(const std::string& where) {
  fail_unsupported(where, "this server cannot force a tool call yet; use \"auto\"");
}

}  // namespace slip::server::api
