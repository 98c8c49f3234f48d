#include "server/api/responses_tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json_text.h"
#include "server/api/error.h"
#include "server/api/tool_choice.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

constexpr const char* kCustomInput = "input";

class Reader {
 public:
  explicit Reader(ResponsesRequest& request) : request_(request) {}

  void read(const json& list, const std::string& path, const std::string& space) {
    if (!list.is_array()) fail_field(path, "must be a list, not {}", kind_text(list));
    for (size_t i = 0; i < list.size(); ++i) tool(Fields(list[i], fmt::format("{}[{}]", path, i)), space);
  }

 private:
  void tool(const Fields& fields, const std::string& space) {
    const std::string type = fields.text("type").value_or("");
    if (type.empty()) fail_field(fields.path("type"), "is missing");
    if (type == "function" || type == "custom") {
      const std::string name = fields.need_text("name");
      require_callable(name, fields.path("name"));
      text::Tool read{.name = full_name(space, name), .description = fields.text("description").value_or("")};
      require_callable(read.name, fields.path("name"));
      if (type == "custom") {
        read.parameters = {{"type", "object"},
                           {"properties", {{kCustomInput, {{"type", "string"}}}}},
                           {"required", {kCustomInput}}};
      } else if (fields.object("parameters")) {
        read.parameters = *fields.find("parameters");
      }
      request_.tools.push_back({.name = name, .space = space, .custom = type == "custom"});
      request_.chat.conversation.tools.push_back(std::move(read));
    } else if (type == "namespace" && space.empty()) {
      const std::string name = fields.text("name").value_or("");
      require_callable(name, fields.path("name"));
      if (const json* inner = fields.find("tools")) read(*inner, fields.path("tools"), name);
    } else {
      request_.chat.notes.push_back("left out the tool of type " + checkpoint::in_quotes(type));
    }
  }

  ResponsesRequest& request_;
};

/// A choice that names tools: {"type": "function", "name": ...}, or a list of those allowed.
void read_choice_object(const Fields& choice, ResponsesRequest& request) {
  const std::string type = choice.text("type").value_or("");
  std::vector<text::Tool>& tools = request.chat.conversation.tools;
  if (type == "function" || type == "custom") {
    require_tool(tools, choice.text("name").value_or(""), choice.path("name"));
    fail_forced_call("tool_choice");
  }
  if (type != "allowed_tools")
    fail_unsupported("tool_choice.type", "this server cannot force a tool of type '{}'", type.substr(0, 40));
  const std::string mode = choice.text("mode").value_or("auto");
  if (mode != "auto") fail_forced_call(choice.path("mode"));
  const json* list = choice.find("tools");
  if (list == nullptr || !list->is_array()) fail_field(choice.path("tools"), "must be a list");
  std::vector<std::string> allowed;
  for (size_t i = 0; i < list->size(); ++i)
    allowed.push_back(
        Fields((*list)[i], fmt::format("{}[{}]", choice.path("tools"), i)).text("name").value_or(""));
  std::vector<ResponsesTool> kept;
  std::vector<text::Tool> kept_tools;
  for (size_t i = 0; i < tools.size(); ++i) {
    if (std::find(allowed.begin(), allowed.end(), request.tools[i].name) == allowed.end()) continue;
    kept.push_back(std::move(request.tools[i]));
    kept_tools.push_back(std::move(tools[i]));
  }
  request.tools = std::move(kept);
  tools = std::move(kept_tools);
}

}  // namespace

std::string full_name(std::string_view space, std::string_view name) {
  return space.empty() ? std::string(name) : fmt::format("{}.{}", space, name);
}

json custom_arguments(std::string input) {
  return {{kCustomInput, std::move(input)}};
}

void read_responses_tools(const Fields& body, ResponsesRequest& request) {
  if (const json* list = body.find("tools")) Reader(request).read(*list, "tools", "");
  const json* choice = body.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_object()) return read_choice_object(Fields(*choice, "tool_choice"), request);
  const std::string word = choice->is_string() ? choice->get<std::string>() : "";
  if (word == "auto") return;
  if (word == "none") {
    request.tools.clear();
    return request.chat.conversation.tools.clear();
  }
  if (word == "required") fail_forced_call("tool_choice");
  fail_field("tool_choice", "must be auto, none, required or an object, not {}",
             choice->is_string() ? "'" + word.substr(0, 40) + "'" : kind_text(*choice));
}

}  // namespace slip::server::api
