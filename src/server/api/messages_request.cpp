#include "server/api/messages_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json_text.h"
#include "server/api/error.h"
#include "server/api/media_parts.h"
#include "server/api/thinking.h"
#include "server/api/tool_choice.h"
#include "server/api/turn_list.h"
#include "text/utf8.h"

namespace slip::server::api {
namespace {

using nlohmann::json;
using text::Role;

constexpr std::string_view kBilling = "x-anthropic-billing-header:";
constexpr std::string_view kReminder = "<system-reminder>";

void add_line(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += '\n';
  text += more;
}

/// Without Claude Code's first line, which differs between sessions and is for nobody's eyes.
std::string_view without_billing(std::string_view text) {
  if (!text.starts_with(kBilling)) return text;
  const size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

/// A block of a content, or the content itself where it is a string.
struct Block {
  const json& value;
  std::string where, type;

  Fields fields() const { return Fields(value, where); }
  std::string text() const {
    return value.is_string() ? value.get<std::string>() : fields().need_text("text");
  }
};

std::vector<Block> blocks_of(const json& content, const std::string& path) {
  if (content.is_string()) return {{content, path, "text"}};
  if (!content.is_array())
    fail_field(path, "must be a string or a list of blocks, not {}", kind_text(content));
  std::vector<Block> blocks;
  for (size_t i = 0; i < content.size(); ++i) {
    std::string where = fmt::format("{}[{}]", path, i);
    std::string type = Fields(content[i], where).need_text("type");
    blocks.push_back({content[i], std::move(where), std::move(type)});
  }
  return blocks;
}

/// Reads one request's conversation, block by block.
class Reader {
 public:
  explicit Reader(ChatRequest& request) : request_(request) {}

  void read(const Fields& body) {
    if (const json* system = body.find("system")) {
      if (std::string words = system_text(*system, "system"); !words.empty())
        turns_.say(Role::kSystem, std::move(words));
    }
    const json* list = body.find("messages");
    if (list == nullptr) fail_field("messages", "is missing; give at least one message");
    if (!list->is_array()) fail_field("messages", "must be a list, not {}", kind_text(*list));
    if (list->empty()) fail_field("messages", "is empty; give at least one message");
    for (size_t i = 0; i < list->size(); ++i) message((*list)[i], fmt::format("messages[{}]", i));
    if (turns_.waits())
      fail_field(fmt::format("messages[{}]", list->size() - 1), "its tool calls need their results");
    request_.options.continue_last = turns_.ends_with_answer();
    request_.conversation.turns = turns_.take();
  }

 private:
  void message(const json& value, const std::string& where) {
    const Fields fields(value, where);
    const std::string role = fields.need_text("role");
    const json* content = fields.find("content");
    if (content == nullptr) fail_field(fields.path("content"), "is missing");
    const std::string path = fields.path("content");
    if (role == "user") return user(*content, path);
    if (role == "assistant") return assistant(*content, path);
    if (role == "system") return turns_.say(Role::kSystem, system_text(*content, path));
    fail_field(fields.path("role"), "must be user, assistant or system, not '{}'", role.substr(0, 40));
  }

  std::string system_text(const json& content, const std::string& path) {
    std::string words;
    for (const Block& block : blocks_of(content, path)) {
      if (block.type == "text") {
        add_line(words, without_billing(block.text()));
      } else {
        leave_out(block);
      }
    }
    return words;
  }

  // Results of tools first, wherever they stand, as they belong to the calls before.
  void user(const json& content, const std::string& path) {
    Content said;
    std::vector<std::string> reminders;
    bool results = false, spoken = false;
    for (const Block& block : blocks_of(content, path)) {
      if (block.type == "tool_result") {
        tool_result(block);
        results = true;
      } else if (auto picture = picture_of(block)) {
        said.add(std::move(*picture));
        spoken = true;
      } else if (block.type != "text") {
        leave_out(block);
      } else if (results && text::trim(block.text()).starts_with(kReminder)) {
        reminders.push_back(block.text());
      } else {
        said.add(block.text());
        spoken = true;
      }
    }
    for (const std::string& reminder : reminders) turns_.remind(reminder);
    if (spoken || !results) turns_.say(Role::kUser, std::move(said));
  }

  void tool_result(const Block& block) {
    const Fields fields = block.fields();
    const std::string id = fields.need_text("tool_use_id");
    Content result;
    if (fields.boolean_or("is_error", false)) result.add("Error:");
    if (const json* content = fields.find("content")) add_result(*content, fields.path("content"), result);
    turns_.result(id, std::move(result), fields.path("tool_use_id"));
  }

  void add_result(const json& content, const std::string& path, Content& result) {
    std::string_view between = result.empty() ? "\n" : " ";  // behind "Error:"
    for (const Block& block : blocks_of(content, path)) {
      if (auto picture = picture_of(block)) {
        result.add(std::move(*picture));
      } else if (const MediaName* media = media_of(block.value)) {
        result.add(unseen_text(*media), between);
      } else if (block.type == "text") {
        result.add(block.text(), between);
      } else {
        leave_out(block);
        continue;
      }
      between = "\n";
    }
  }

  std::optional<text::ContentPart> picture_of(const Block& block) {
    const MediaName* media = media_of(block.value);
    if (media == nullptr) return std::nullopt;
    return take_picture(block.value, *media, block.where, request_.images);
  }

  void assistant(const json& content, const std::string& path) {
    for (const Block& block : blocks_of(content, path)) {
      if (block.type == "text") {
        turns_.answer(block.text());
      } else if (block.type == "thinking") {
        turns_.think(
            block.fields().need_text("thinking"));  // the signature may be another maker's: not checked
      } else if (block.type == "tool_use") {
        tool_use(block.fields());
      } else {
        leave_out(block);
      }
    }
  }

  void tool_use(const Fields& fields) {
    text::ToolCall call{.id = fields.need_text("id"), .name = fields.need_text("name")};
    require_callable(call.name, fields.path("name"));
    if (fields.object("input")) call.arguments = *fields.find("input");
    turns_.call(std::move(call));
  }

  /// Media is refused; what nobody here knows is told in the log, once for a type.
  void leave_out(const Block& block) {
    if (const MediaName* media = media_of(block.value)) fail_media(block.where, *media);
    std::string note = "left out blocks of type " + checkpoint::in_quotes(block.type);
    auto& notes = request_.notes;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
  }

  ChatRequest& request_;
  TurnList turns_;
};

/// Tools of Anthropic's own, which have a type and no schema, run where their models do.
void read_tools(const Fields& body, ChatRequest& request) {
  const json* list = body.find("tools");
  if (list == nullptr) return;
  if (!list->is_array()) fail_field("tools", "must be a list, not {}", kind_text(*list));
  for (size_t i = 0; i < list->size(); ++i) {
    const Fields tool((*list)[i], fmt::format("tools[{}]", i));
    const std::string type = tool.text("type").value_or("custom");
    if (type != "custom" && !tool.has("input_schema")) {
      request.notes.push_back("left out the tool of type " + checkpoint::in_quotes(type));
      continue;
    }
    text::Tool read{.name = tool.need_text("name"), .description = tool.text("description").value_or("")};
    require_callable(read.name, tool.path("name"));
    if (tool.object("input_schema")) read.parameters = *tool.find("input_schema");
    request.conversation.tools.push_back(std::move(read));
  }
}

void read_tool_choice(const Fields& body, ChatRequest& request) {
  const auto choice = body.object("tool_choice");
  if (!choice) return;
  const std::string type = choice->need_text("type");
  request.parallel_tool_calls = !choice->boolean_or("disable_parallel_tool_use", false);
  if (type == "auto") return;
  if (type == "none") return request.conversation.tools.clear();
  if (type == "tool") {
    require_tool(request.conversation.tools, choice->need_text("name"), choice->path("name"));
  } else if (type != "any") {
    fail_field(choice->path("type"), "must be auto, any, tool or none, not '{}'", type.substr(0, 40));
  }
  fail_forced_call("tool_choice");
}

void read_format(const Fields& body, ChatRequest& request) {
  const auto config = body.object("output_config");
  if ((!config || !config->has("format")) && !body.has("output_format")) return;
  request.warnings.emplace_back(
      "output_config.format is not enforced yet; the answer may not have that form");
}

void read_conversation_of(const Fields& body, ChatRequest& request) {
  Reader(request).read(body);
  read_tools(body, request);
  read_tool_choice(body, request);
  request.options.thinking = read_thinking(body);
}

}  // namespace

ChatRequest read_messages(const json& body, const Reading& reading) {
  const Fields fields(body);
  ChatRequest request{.common = read_generation(fields, reading.vocab), .images = {.seen = reading.sees}};
  read_conversation_of(fields, request);
  read_format(fields, request);
  refuse_forced_forms(fields);
  if (request.common.choices > 1)
    fail_field("n", "this API gives one answer, not {}", request.common.choices);
  read_stops(fields, "stop_sequences", request.common.generation.stop_strings);
  if (const json* servers = fields.find("mcp_servers"); servers != nullptr && !servers->empty())
    request.notes.emplace_back("left out mcp_servers: this server connects to none");
  require_answer(request, "max_tokens");
  return request;
}

ChatRequest read_counted_messages(const json& body, const Reading& reading) {
  ChatRequest request;
  request.images.seen = reading.sees;
  read_conversation_of(Fields(body), request);
  return request;
}

}  // namespace slip::server::api
