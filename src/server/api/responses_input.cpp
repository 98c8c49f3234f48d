#include "server/api/responses_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json_text.h"
#include "server/api/error.h"
#include "server/api/media_parts.h"
#include "server/api/responses_tools.h"
#include "server/api/tool_choice.h"
#include "server/api/turn_list.h"

namespace slip::server::api {
namespace {

using nlohmann::json;
using text::Role;

/// Items of tools that run on OpenAI's servers, or that this server keeps no memory of: they say nothing to the model.
constexpr std::string_view kForeignItems[] = {"web_search_call",
                                              "file_search_call",
                                              "computer_call",
                                              "computer_call_output",
                                              "code_interpreter_call",
                                              "mcp_call",
                                              "mcp_list_tools",
                                              "mcp_approval_request",
                                              "mcp_approval_response",
                                              "image_generation_call",
                                              "compaction",
                                              "ghost_snapshot",
                                              "tool_search_call",
                                              "tool_search_output"};
constexpr const char* kKnownItems =
    "message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, "
    "local_shell_call, "
    "local_shell_call_output and reasoning";
constexpr const char* kKnownParts = "input_text, output_text, refusal, summary_text, reasoning_text and text";

/// What clients call an object where it is sent as a string; what is none stays a string.
json arguments_of(const std::string& text) {
  if (text.empty()) return json::object();
  try {
    json value = checkpoint::parse_json(text, "arguments");
    if (value.is_object()) return value;
  } catch (const Error&) {
    // As a model wrote it: the template takes such a string as it stands.
  }
  return text;
}

/// Where a content stands.
enum class Of { kUser, kTool, kOther };

/// What a list of parts says. Pictures belong to users and to results of tools; there media that nobody takes in become a
/// word, and elsewhere they are refused.
Content content_of(const json& content, const std::string& path, Of of, ImageList& images) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    fail_field(path, "must be a string or a list of parts, not {}", kind_text(content));
  Content said;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", path, i);
    const Fields part(content[i], where);
    const std::string type = part.need_text("type");
    if (const MediaName* media = media_of(content[i])) {
      auto picture = of == Of::kOther ? std::nullopt : take_picture(content[i], *media, where, images);
      if (picture) {
        said.add(std::move(*picture));
        continue;
      }
      if (of != Of::kTool) fail_media(where, *media);
      said.add(unseen_text(*media));
    } else if (type == "refusal") {
      said.add(part.need_text("refusal"));
    } else if (type == "input_text" || type == "output_text" || type == "text" || type == "summary_text" ||
               type == "reasoning_text") {
      said.add(part.need_text("text"));
    } else {
      fail_unsupported(where + ".type", "there is no part of type '{}'; this server reads {}",
                       type.substr(0, 40), kKnownParts);
    }
  }
  return said;
}

/// The same of somebody who shows nothing.
std::string words_of(const json& content, const std::string& path) {
  ImageList none;
  text::Turn turn;
  content_of(content, path, Of::kOther, none).move_into(turn);
  return std::move(turn.text);
}

class Reader {
 public:
  explicit Reader(ResponsesRequest& request) : request_(request) {}

  void read(const Fields& body) {
    if (auto instructions = body.text("instructions"); instructions && !instructions->empty())
      turns_.say(Role::kSystem, std::move(*instructions));
    const json* input = body.find("input");
    if (input == nullptr) fail_field("input", "is missing");
    if (input->is_string()) {
      turns_.say(Role::kUser, input->get<std::string>());
    } else if (!input->is_array()) {
      fail_field("input", "must be a string or a list of items, not {}", kind_text(*input));
    } else {
      if (input->empty() && turns_.empty()) fail_field("input", "is empty; give at least one item");
      for (size_t i = 0; i < input->size(); ++i) item(Fields((*input)[i], fmt::format("input[{}]", i)));
    }
    if (turns_.empty()) fail_field("input", "says nothing; give at least one message");
    request_.chat.conversation.turns = turns_.take();
  }

 private:
  void item(const Fields& fields) {
    const std::string type = fields.text("type").value_or(fields.has("role") ? "message" : "");
    if (type == "message") return message(fields);
    if (type == "function_call") return call(fields, arguments_of(fields.text("arguments").value_or("")));
    if (type == "custom_tool_call") return call(fields, custom_arguments(fields.text("input").value_or("")));
    if (type == "local_shell_call") return shell_call(fields);
    if (type == "function_call_output" || type == "custom_tool_call_output" ||
        type == "local_shell_call_output")
      return output(fields);
    if (type == "reasoning") return reasoning(fields);
    if (type == "item_reference")
      fail_unsupported(fields.path("type"), "this server keeps no items; send the item itself");
    if (std::find(std::begin(kForeignItems), std::end(kForeignItems), type) != std::end(kForeignItems)) {
      request_.chat.notes.push_back(fmt::format("left out an item of type '{}'", type));
      return;
    }
    if (type.empty()) fail_field(fields.path("type"), "is missing");
    fail_unsupported(fields.path("type"), "there is no item of type '{}'; this server reads {}",
                     type.substr(0, 40), kKnownItems);
  }

  void message(const Fields& fields) {
    const std::string role = fields.need_text("role");
    const json* content = fields.find("content");
    if (content == nullptr) fail_field(fields.path("content"), "is missing");
    if (role == "user")
      return turns_.say(Role::kUser,
                        content_of(*content, fields.path("content"), Of::kUser, request_.chat.images));
    std::string words = words_of(*content, fields.path("content"));
    if (role == "assistant") return turns_.answer(words);
    if (role == "system") return turns_.say(Role::kSystem, std::move(words));
    if (role == "developer") return turns_.say(Role::kDeveloper, std::move(words));
    fail_field(fields.path("role"), "must be user, assistant, system or developer, not '{}'",
               role.substr(0, 40));
  }

  void call(const Fields& fields, json arguments) {
    const std::string name = full_name(fields.text("namespace").value_or(""), fields.need_text("name"));
    require_callable(name, fields.path("name"));
    turns_.call({.id = fields.need_text("call_id"), .name = name, .arguments = std::move(arguments)});
  }

  void shell_call(const Fields& fields) {
    const auto action = fields.object("action");
    turns_.call({.id = fields.need_text("call_id"),
                 .name = "local_shell",
                 .arguments = action ? *fields.find("action") : json::object()});
  }

  void output(const Fields& fields) {
    const std::string id = fields.need_text("call_id");
    const json* output = fields.find("output");
    if (output == nullptr) fail_field(fields.path("output"), "is missing");
    turns_.result(id, content_of(*output, fields.path("output"), Of::kTool, request_.chat.images),
                  fields.path("call_id"));
  }

  /// Our own thought in whichever of three forms it comes back; another maker's encrypted one says nothing to us.
  void reasoning(const Fields& fields) {
    std::string words;
    for (const char* key : {"content", "summary"}) {
      const json* parts = fields.find(key);
      if (words.empty() && parts != nullptr) words = words_of(*parts, fields.path(key));
    }
    const std::string sealed = fields.text("encrypted_content").value_or("");
    if (words.empty() && sealed.starts_with(kThoughtMark)) words = sealed.substr(kThoughtMark.size());
    turns_.think(words);
  }

  ResponsesRequest& request_;
  TurnList turns_;
};

}  // namespace

void read_responses_input(const Fields& body, ResponsesRequest& request) {
  Reader(request).read(body);
}

}  // namespace slip::server::api
