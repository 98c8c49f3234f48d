#include "server/api/ollama_request.h"

#include <fmt/format.h>

#include "server/api/error.h"
#include "server/api/media_parts.h"
#include "server/api/thinking.h"
#include "server/api/tool_choice.h"
#include "server/api/turn_list.h"

namespace slip::server::api {
namespace {

using nlohmann::json;
using text::Role;

constexpr MediaName kImage{"images", "image", "see"};

void read_calls(const Fields& message, TurnList& turns) {
  const json* list = message.find("tool_calls");
  if (list == nullptr) return;
  if (!list->is_array()) fail_field(message.path("tool_calls"), "must be a list, not {}", kind_text(*list));
  for (size_t i = 0; i < list->size(); ++i) {
    const Fields call((*list)[i], fmt::format("{}[{}]", message.path("tool_calls"), i));
    const auto function = call.object("function");
    if (!function) fail_field(call.path("function"), "is missing");
    text::ToolCall read{.id = call.text("id").value_or(""), .name = function->need_text("name")};
    require_callable(read.name, function->path("name"));
    if (function->object("arguments")) read.arguments = *function->find("arguments");
    turns.call(std::move(read));
  }
}

/// Of a user or a tool: pictures stand in front of the words.
Content content_of(const Fields& message, bool of_tool, ImageList& images) {
  Content said;
  const json* list = message.find("images");
  const std::string path = message.path("images");
  if (list != nullptr && !list->is_array()) fail_field(path, "must be a list, not {}", kind_text(*list));
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (images.seen) {
      said.add(images.add(read_base64_image((*list)[i], fmt::format("{}[{}]", path, i))));
    } else if (of_tool) {
      said.add(unseen_text(kImage));
    } else {
      fail_media(path, kImage);
    }
  }
  said.add(message.text("content").value_or(""));
  return said;
}

void read_message(const Fields& message, TurnList& turns, ImageList& images) {
  const std::string role = message.need_text("role");
  if (role == "user") return turns.say(Role::kUser, content_of(message, false, images));
  if (role == "tool") {
    Content result = content_of(message, true, images);
    if (const auto id = message.text("tool_call_id"); id && !id->empty())
      return turns.result(*id, std::move(result), message.path("tool_call_id"));
    return turns.result_of(message.text("tool_name").value_or(""), std::move(result), message.path("role"));
  }
  if (const json* list = message.find("images"); list != nullptr && !list->empty())
    fail_media(message.path("images"), kImage);
  std::string words = message.text("content").value_or("");
  if (role == "system") return turns.say(Role::kSystem, std::move(words));
  if (role == "assistant") {
    turns.think(message.text("thinking").value_or(""));
    turns.answer(words);
    return read_calls(message, turns);
  }
  fail_field(message.path("role"), "must be system, user, assistant or tool, not '{}'", role.substr(0, 40));
}

std::vector<text::Turn> read_messages(const Fields& body, ImageList& images) {
  const json* list = body.find("messages");
  if (list == nullptr || !list->is_array() || list->empty())
    fail_field("messages", "must be a list of at least one message");
  TurnList turns;
  for (size_t i = 0; i < list->size(); ++i)
    read_message(Fields((*list)[i], fmt::format("messages[{}]", i)), turns, images);
  if (turns.empty()) fail_field("messages", "say nothing; give at least one with a content");
  return turns.take();
}

void read_tools(const Fields& body, std::vector<text::Tool>& tools) {
  const json* list = body.find("tools");
  if (list == nullptr) return;
  try {
    tools = text::read_tools(*list);
  } catch (const Error& error) {
    throw ApiError(api_error(error));
  }
  for (size_t i = 0; i < tools.size(); ++i)
    require_callable(tools[i].name, fmt::format("tools[{}].function.name", i));
}

void read_format(const Fields& body, std::vector<std::string>& warnings) {
  const json* format = body.find("format");
  if (format == nullptr || *format == "") return;
  if (*format == "json") {
    warnings.emplace_back("format: json is not enforced yet; the answer may be no JSON");
    return;
  }
  if (format->is_object()) fail_unsupported("format", "this server cannot force a schema yet; use \"json\"");
  fail_field("format", "must be \"json\" or a schema, not {}", kind_text(*format));
}

}  // namespace

ChatRequest read_ollama_chat(const json& body, const Reading& reading) {
  const Fields fields(body);
  static const json kNone = json::object();
  const json* options = fields.find("options");
  const Fields chosen(options == nullptr ? kNone : *options, "options");
  ChatRequest request{.common = read_generation(chosen, reading.vocab), .images = {.seen = reading.sees}};
  request.common.stream = fields.boolean_or("stream", true);
  request.common.choices = 1;
  request.common.generation.draft = fields.boolean_or("draft", true);
  // -1 and -2 mean as many as there is room for.
  if (const auto most = chosen.integer("num_predict", -2, INT64_MAX); most && *most >= 0)
    request.common.max_tokens = most;
  request.conversation.turns = read_messages(fields, request.images);
  read_tools(fields, request.conversation.tools);
  request.options.thinking = read_thinking(fields);
  read_format(fields, request.warnings);
  require_answer(request, "options.num_predict");
  return request;
}

}  // namespace slip::server::api
