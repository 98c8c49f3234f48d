#include "server/api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/error.h"
#include "server/api/media_parts.h"
#include "server/api/thinking.h"
#include "server/api/tool_choice.h"
#include "text/json_slices.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

/// A part as the conversation's reader knows it. Throws for what this server cannot take in.
json readable_part(const json& part, const json& role, const std::string& where, ImageList& images) {
  if (const MediaName* media = media_of(part)) {
    const bool may_show = role == "user" || role == "tool";
    if (may_show && take_picture(part, *media, where, images)) return {{"type", "image"}};
    if (role == "tool") return {{"type", "text"}, {"text", unseen_text(*media)}};
    if (images.seen && media->what == "image")
      fail_unsupported(where,
                       "pictures stand in a user's message or a tool's result, not in one of the role {}",
                       role.get<std::string>().substr(0, 40));
    fail_media(where, *media);
  }
  if (part.is_object() && part.value("type", json()) == "refusal")  // an assistant's, sent back
    return {{"type", "text"}, {"text", part.value("refusal", json(""))}};
  if (part.is_object() && part.value("type", json()) == "text" &&
      (!part.contains("text") || !part["text"].is_string())) {
    fail_field(where + ".text", "must be a string");
  }
  return part;
}

/// Checks what the reader of conversations leaves open, and puts parts into words that it knows. Whether it changed any.
bool prepare_message(json& message, const std::string& where, ImageList& images) {
  if (!message.is_object())
    fail_field(where, "must be an object with a \"role\", not {}", kind_text(message));
  const json role = message.value("role", json());
  if (!role.is_string()) fail_field(where + ".role", "must be a string, not {}", kind_text(role));
  const auto content = message.find("content");
  const bool empty = content == message.end() || content->is_null();
  if (empty && role != "assistant" && role != "model") fail_field(where + ".content", "is missing");
  if (empty) return false;
  bool changed = false;
  if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      json part = readable_part((*content)[i], role, fmt::format("{}.content[{}]", where, i), images);
      changed = changed || part != (*content)[i];
      (*content)[i] = std::move(part);
    }
  } else if (!content->is_string() && role != "tool") {
    fail_field(where + ".content", "must be a string or a list of parts, not {}", kind_text(*content));
  }
  return changed;
}

/// The items of a list of the body as they were sent, or nothing when that is not known.
std::vector<std::string_view> sent_items(std::string_view sent, std::string_view key, size_t count) {
  auto items = text::item_slices(text::member_slice(sent, key));
  if (items.size() != count) items.clear();
  return items;
}

/// The parts of the turn that show pictures show those that were read last.
void number_pictures(text::Turn& turn, const ImageList& images) {
  auto next = static_cast<int>(images.parts.size());
  for (auto part = turn.parts.rbegin(); part != turn.parts.rend(); ++part) {
    if (part->kind == text::ContentPart::Kind::kImage) part->media = --next;
  }
}

std::vector<text::Turn> read_turns(const json& body, std::string_view sent, ImageList& images) {
  const auto found = body.find("messages");
  if (found == body.end() || found->is_null())
    fail_field("messages", "is missing; give at least one message");
  if (!found->is_array()) fail_field("messages", "must be a list, not {}", kind_text(*found));
  if (found->empty()) fail_field("messages", "is empty; give at least one message");
  const auto items = sent_items(sent, "messages", found->size());
  std::vector<text::Turn> turns;
  turns.reserve(found->size());
  for (size_t i = 0; i < found->size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    json list = json::array({(*found)[i]});
    const bool changed = prepare_message(list[0], where, images);
    try {
      turns.push_back(std::move(text::read_messages(list).front()));
      number_pictures(turns.back(), images);
      if (!changed && !items.empty()) turns.back().source = items[i];
    } catch (const Error& error) {
      // The reader saw a list of one.
      std::string message = error.what();
      if (message.starts_with("messages[0]")) message.replace(0, 11, where);
      throw ApiError(api_error(Error(error.kind(), message)));
    }
  }
  return turns;
}

std::vector<text::Tool> read_tools(const Fields& fields, std::string_view sent) {
  const json* list = fields.find("tools");
  if (list == nullptr) return {};
  if (!list->is_array()) fail_field("tools", "must be a list, not {}", kind_text(*list));
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    const json type = Fields((*list)[i], where).has("type") ? (*list)[i]["type"] : json("function");
    if (type != "function") fail_unsupported(where + ".type", "must be \"function\" on this route");
  }
  std::vector<text::Tool> tools;
  try {
    tools = text::read_tools(*list);
  } catch (const Error& error) {
    throw ApiError(api_error(error));
  }
  const auto items = sent_items(sent, "tools", tools.size());
  for (size_t i = 0; i < items.size(); ++i) tools[i].source = items[i];
  for (size_t i = 0; i < tools.size(); ++i)
    require_callable(tools[i].name, fmt::format("tools[{}].function.name", i));
  return tools;
}

void check_named_tool(const json& choice, const std::vector<text::Tool>& tools) {
  const Fields named(choice, "tool_choice");
  const std::string type = named.text("type").value_or("");
  if (type != "function")
    fail_unsupported("tool_choice.type", "must be \"function\", not '{}'", type.substr(0, 40));
  const auto function = named.object("function");
  const std::string name = function ? function->text("name").value_or("") : "";
  require_tool(tools, name, "tool_choice.function.name");
}

/// Takes the tools away where none shall be called.
void apply_tool_choice(const Fields& fields, std::vector<text::Tool>& tools) {
  const json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_object()) {
    check_named_tool(*choice, tools);
  } else if (!choice->is_string()) {
    fail_field("tool_choice", "must be auto, none, required or a named function, not {}", kind_text(*choice));
  } else {
    const auto& word = choice->get_ref<const std::string&>();
    if (word == "none") tools.clear();
    if (word == "none" || word == "auto") return;
    if (word != "required")
      fail_field("tool_choice", "must be auto, none, required or a named function, not '{}'",
                 word.substr(0, 40));
    if (tools.empty()) fail_field("tool_choice", "\"required\" needs at least one entry in tools");
  }
  fail_forced_call("tool_choice");
}

void read_response_format(const Fields& fields, std::vector<std::string>& warnings) {
  const auto format = fields.object("response_format");
  if (!format) return;
  const std::string type = format->text("type").value_or("");
  if (type == "text") return;
  if (type == "json_object") {
    warnings.push_back("response_format: json_object is not enforced yet; the answer may be no JSON");
    return;
  }
  if (type == "json_schema" || type == "grammar" || type == "regex" || type == "structural_tag") {
    fail_unsupported("response_format.type", "this server cannot force \"{}\" yet; use json_object or text",
                     type);
  }
  fail_field("response_format.type", "must be text, json_object or json_schema, not '{}'",
             type.substr(0, 40));
}

void read_modalities(const Fields& fields) {
  const json* list = fields.find("modalities");
  if (list == nullptr) return;
  if (!list->is_array()) fail_field("modalities", "must be a list, not {}", kind_text(*list));
  for (const json& one : *list) {
    if (one != "text") fail_unsupported("modalities", "this server answers in text alone");
  }
}

void read_logprobs(const Fields& fields, session::SamplingChoice& sampling) {
  const bool wanted = fields.boolean_or("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, sample::kMaxTopLogprobs);
  if (top && *top > 0 && !wanted) fail_field("top_logprobs", "needs logprobs to be true");
  if (wanted) sampling.logprobs = static_cast<int>(top.value_or(0));
}

}  // namespace

void read_conversation(const json& body, ChatRequest& request, std::string_view sent) {
  const Fields fields(body);
  text::Conversation& conversation = request.conversation;
  session::ChatOptions& options = request.options;
  request.image_tokens = read_image_tokens(body);
  conversation.turns = read_turns(body, sent, request.images);
  conversation.tools = read_tools(fields, sent);
  apply_tool_choice(fields, conversation.tools);
  options.thinking = read_thinking(fields);
  if (fields.object("chat_template_kwargs")) {
    const std::string_view more = text::member_slice(sent, "chat_template_kwargs");
    options.more = more.empty() ? fields.find("chat_template_kwargs")->dump() : std::string(more);
  }
  options.add_generation_prompt = fields.boolean_or("add_generation_prompt", true);
  options.continue_last = fields.boolean_or("continue_final_message", false);
  if (options.continue_last && (conversation.turns.back().role != text::Role::kAssistant ||
                                !conversation.turns.back().calls.empty())) {
    fail_field("continue_final_message", "the last message must be an assistant's, without tool calls");
  }
}

ChatRequest read_chat(const json& body, const Reading& reading, std::string_view sent) {
  const Fields fields(body);
  ChatRequest request{.common = read_generation(fields, reading.vocab), .images = {.seen = reading.sees}};
  read_conversation(body, request, sent);
  if (!request.common.continue_ids.empty() &&
      (request.options.continue_last || !request.options.add_generation_prompt)) {
    fail_field("continue_token_ids",
               "stand behind the generation prompt; leave out continue_final_message and "
               "add_generation_prompt");
  }
  read_response_format(fields, request.warnings);
  refuse_forced_forms(fields);
  if (fields.has("functions")) fail_unsupported("functions", "is the old spelling; use tools");
  read_modalities(fields);
  read_logprobs(fields, request.common.generation.sampling);
  request.parallel_tool_calls = fields.boolean_or("parallel_tool_calls", true);
  require_answer(request, fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens");
  return request;
}

void require_answer(ChatRequest& request, const char* field) {
  const auto& most = request.common.max_tokens;
  if (most && *most < 1) fail_field(field, "must be at least 1, not {}", *most);
  session::Generation& generation = request.common.generation;
  // A reply that ends before it began helps nobody; the first token is always text, a thought or a call. What is
  // continued may be complete already.
  if (!request.options.continue_last && request.common.continue_ids.empty())
    generation.min_tokens = std::max(generation.min_tokens, 1);
  generation.form = session::ReplyForm::kChat;
}

}  // namespace slip::server::api
