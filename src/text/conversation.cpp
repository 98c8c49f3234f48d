#include "text/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "text/json_slices.h"

namespace slip::text {
namespace {

using nlohmann::json;

// A message or a tool around its values.
constexpr int kDeepestItem = kDeepestValue + 8;

std::string string_field(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_string()) fail_usage("{}: \"{}\" must be a string", where, key);
  return found->get<std::string>();
}

std::string name_field(const json& object, const std::string& where) {
  std::string name = string_field(object, "name", where);
  if (name.empty()) fail_usage("{}: a function needs a \"name\"", where);
  return name;
}

// With an explicit stack, as the depth is what is in question.
void check_depth(const json& value, const std::string& where, int deepest = kDeepestValue) {
  std::vector<std::pair<const json*, int>> open{{&value, 1}};
  while (!open.empty()) {
    const auto [at, depth] = open.back();
    open.pop_back();
    if (!at->is_structured()) continue;
    if (depth > deepest) fail_usage("{}: is nested more than {} deep", where, deepest);
    for (const json& child : *at) open.emplace_back(&child, depth + 1);
  }
}

ContentPart read_part(const json& part, const std::string& where) {
  using Kind = ContentPart::Kind;
  if (!part.is_object()) fail_usage("{}: a part of the content must be an object with a \"type\"", where);
  const std::string type = string_field(part, "type", where);
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"text", Kind::kText},      {"image", Kind::kImage},       {"image_url", Kind::kImage},
      {"audio", Kind::kAudio},    {"input_audio", Kind::kAudio}, {"video", Kind::kVideo},
      {"video_url", Kind::kVideo}};
  for (const auto& [name, kind] : kKinds) {
    if (type == name) return {kind, kind == Kind::kText ? string_field(part, "text", where) : std::string()};
  }
  fail_usage("{}: there is no content of type \"{}\"; use text, image, audio or video", where, type);
}

void read_content(const json& content, const std::string& where, Turn& turn) {
  if (content.is_string()) {
    turn.text = content.get<std::string>();
  } else if (content.is_array()) {
    for (size_t i = 0; i < content.size(); ++i) {
      turn.parts.push_back(read_part(content[i], fmt::format("{}.content[{}]", where, i)));
    }
  } else if (turn.role == Role::kTool) {
    check_depth(content, where + ".content");
    turn.result = content;
  } else if (!content.is_null()) {
    fail_usage("{}: \"content\" must be a string or a list of parts", where);
  }
}

ToolCall read_call(const json& call, const std::string& where) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
    fail_usage("{}: a tool call must be an object with a \"function\"", where);
  }
  const json& function = call["function"];
  ToolCall read{.id = string_field(call, "id", where), .name = name_field(function, where)};
  const auto found = function.find("arguments");
  if (found == function.end() || found->is_null()) return read;
  if (!found->is_object() && !found->is_string())
    fail_usage("{}: \"arguments\" must be an object or a string", where);
  check_depth(*found, where + ".arguments");  // before it is copied, which goes as deep as it is nested
  read.arguments = *found;
  // OpenAI's clients send the object as a string of JSON, some an empty one for no arguments.
  if (found->is_string()) {
    if (found->get_ref<const std::string&>().empty()) {
      read.arguments = json::object();
      return read;
    }
    json parsed = json::parse(found->get_ref<const std::string&>(), nullptr, false);
    if (parsed.is_object()) read.arguments = std::move(parsed);
    check_depth(read.arguments, where + ".arguments");
  }
  return read;
}

/// What a template makes of an answer without a result: an empty list.
ToolAnswer read_answer(const json& answer, const std::string& where) {
  if (!answer.is_object()) fail_usage("{}: a tool's answer must be an object with a \"response\"", where);
  ToolAnswer read{.name = string_field(answer, "name", where), .result = json::array()};
  if (const auto found = answer.find("response"); found != answer.end()) {
    check_depth(*found, where + ".response");
    read.result = *found;
  }
  return read;
}

void read_answers(const json& message, const std::string& where, Turn& turn) {
  const auto answers = message.find("tool_responses");
  if (answers == message.end() || answers->is_null()) return;
  if (!answers->is_array()) fail_usage("{}: \"tool_responses\" must be a list", where);
  for (size_t i = 0; i < answers->size(); ++i) {
    turn.answers.push_back(read_answer((*answers)[i], fmt::format("{}.tool_responses[{}]", where, i)));
  }
}

Turn read_message(const json& message, const std::string& where) {
  if (!message.is_object()) fail_usage("{}: a message must be an object with a \"role\"", where);
  const std::string role = string_field(message, "role", where);
  Turn turn;
  try {
    turn.role = role_of(role);
  } catch (const Error& error) {
    fail_usage("{}: {}", where, error.what());
  }
  if (const auto content = message.find("content"); content != message.end()) {
    read_content(*content, where, turn);
  }
  turn.name = string_field(message, "name", where);
  turn.call_id = string_field(message, "tool_call_id", where);
  turn.reasoning = string_field(message, "reasoning", where);
  if (turn.reasoning.empty()) turn.reasoning = string_field(message, "reasoning_content", where);
  read_answers(message, where, turn);
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return turn;
  if (!calls->is_array()) fail_usage("{}: \"tool_calls\" must be a list", where);
  if (turn.role != Role::kAssistant && !calls->empty()) {
    fail_usage("{}: only an assistant calls tools, not a {}", where, role);
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    turn.calls.push_back(read_call((*calls)[i], fmt::format("{}.tool_calls[{}]", where, i)));
  }
  return turn;
}

Tool read_tool(const json& tool, const std::string& where) {
  if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) {
    fail_usage("{}: a tool must be an object with a \"function\"", where);
  }
  const json& function = tool["function"];
  Tool read{.name = name_field(function, where), .description = string_field(function, "description", where)};
  // Google's templates print a null there, as Python does.
  if (function.value("description", json("")).is_null()) read.description = "None";
  const std::pair<const char*, json*> schemas[] = {{"parameters", &read.parameters},
                                                   {"response", &read.response}};
  for (const auto& [key, schema] : schemas) {
    const auto found = function.find(key);
    if (found == function.end() || found->is_null()) continue;
    if (!found->is_object()) {
      fail_usage("{}: \"{}\" of the tool \"{}\" must be an object, a JSON schema", where, key, read.name);
    }
    check_depth(*found, where);
    *schema = *found;
  }
  return read;
}

template <typename Item, typename Read>
std::vector<Item> read_list(const json& list, const char* name, Read read) {
  std::vector<Item> items;
  if (list.is_null()) return items;
  if (!list.is_array()) fail_usage("\"{}\" must be a list", name);
  items.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", name, i);
    items.push_back(read(list[i], where));
    check_depth(list[i], where, kDeepestItem);
    items.back().source = list[i].dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return items;
}

template <typename Item, typename Read>
std::vector<Item> parse_list(std::string_view text, const char* name, Read read) {
  std::vector<Item> items;
  if (text.empty()) return items;
  json list;
  try {
    list = json::parse(text);
  } catch (const json::exception& exception) {
    const std::string_view what = exception.what();  // "[json.exception.parse_error.101] parse error at ..."
    fail_usage("\"{}\" is not JSON: {}", name, what.substr(what.find("] ") + 2));
  }
  if (list.is_null()) return items;
  if (!list.is_array()) fail_usage("\"{}\" must be a list", name);
  const std::vector<std::string_view> sources = item_slices(text);
  SLIP_CHECK(sources.size() == list.size());  // the fuzz target of messages looks for a list that is not
  items.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", name, i);
    items.push_back(read(list[i], where));
    check_depth(list[i], where, kDeepestItem);
    items.back().source = sources[i];
  }
  return items;
}

}  // namespace

Role role_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Role> kRoles[] = {
      {"system", Role::kSystem},       {"developer", Role::kDeveloper}, {"user", Role::kUser},
      {"assistant", Role::kAssistant}, {"model", Role::kAssistant},     {"tool", Role::kTool}};
  for (const auto& [known, role] : kRoles) {
    if (name == known) return role;
  }
  fail_usage("there is no role \"{}\"; a turn is by system, developer, user, assistant or tool", name);
}

std::vector<Turn> read_messages(const json& messages) {
  return read_list<Turn>(messages, "messages", read_message);
}

std::vector<Tool> read_tools(const json& tools) {
  return read_list<Tool>(tools, "tools", read_tool);
}

std::vector<Turn> parse_messages(std::string_view messages) {
  return parse_list<Turn>(messages, "messages", read_message);
}

std::vector<Tool> parse_tools(std::string_view tools) {
  return parse_list<Tool>(tools, "tools", read_tool);
}

void check_tool_answers(std::span<const Turn> turns) {
  const Turn* caller = nullptr;
  for (size_t i = 0; i < turns.size(); ++i) {
    const Turn& turn = turns[i];
    if (turn.role != Role::kTool) {
      caller = turn.calls.empty() ? nullptr : &turn;
      continue;
    }
    if (caller == nullptr) {
      fail_usage(
          "messages[{}]: a tool answers, but no tool was called before it; put the assistant's message "
          "with its tool_calls there",
          i);
    }
    const bool made = std::any_of(caller->calls.begin(), caller->calls.end(), [&](const ToolCall& call) {
      return turn.call_id.empty() ? call.name == turn.name : call.id == turn.call_id;
    });
    if (!made) {
      fail_usage("messages[{}]: a tool answers the call \"{}\", which the assistant did not make", i,
                 turn.call_id.empty() ? turn.name : turn.call_id);
    }
  }
}

}  // namespace slip::text
