#include "server/api/responses_request.h"

#include <fmt/format.h>

#include "sample/options.h"
#include "server/api/error.h"
#include "server/api/responses_input.h"
#include "server/api/responses_tools.h"
#include "server/api/thinking.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

/// Fields that need a memory which this server does not have.
void refuse_state(const Fields& body) {
  for (const char* key : {"previous_response_id", "conversation"}) {
    if (body.has(key))
      fail_unsupported(body.path(key),
                       "this server keeps no responses; send the whole conversation in input instead");
  }
  if (body.boolean_or("background", false))
    fail_unsupported("background", "this server answers while you wait; leave it out");
  if (body.has("prompt")) fail_unsupported("prompt", "this server stores no prompts; send input");
}

void read_text_format(const Fields& body, ChatRequest& chat) {
  const auto text = body.object("text");
  const auto format = text ? text->object("format") : std::nullopt;
  if (!format) return;
  const std::string type = format->text("type").value_or("");
  if (type == "text") return;
  if (type == "json_object") {
    chat.warnings.emplace_back("text.format: json_object is not enforced yet; the answer may be no JSON");
    return;
  }
  if (type == "json_schema" || type == "grammar")
    fail_unsupported("text.format.type", "this server cannot force \"{}\" yet; use json_object or text",
                     type);
  fail_field("text.format.type", "must be text, json_object or json_schema, not '{}'", type.substr(0, 40));
}

void read_include(const Fields& body, ResponsesRequest& request) {
  const json* list = body.find("include");
  if (list == nullptr) return;
  if (!list->is_array()) fail_field("include", "must be a list, not {}", kind_text(*list));
  session::SamplingChoice& sampling = request.chat.common.generation.sampling;
  for (const json& one : *list) {
    if (one == "reasoning.encrypted_content") request.encrypted = true;
    if (one == "message.output_text.logprobs" && !sampling.logprobs) sampling.logprobs = 0;
  }
}

void read_top_logprobs(const Fields& body, ResponsesRequest& request) {
  const auto top = body.integer("top_logprobs", 0, sample::kMaxTopLogprobs);
  if (top && *top > 0) request.chat.common.generation.sampling.logprobs = static_cast<int>(*top);
}

void read_reasoning(const Fields& body, ResponsesRequest& request) {
  request.chat.options.thinking = read_thinking(body);
  const auto reasoning = body.object("reasoning");
  if (!reasoning) return;
  for (const char* key : {"summary", "generate_summary"}) request.summary |= reasoning->text(key).has_value();
}

void read_truncation(const Fields& body, ChatRequest& chat) {
  const std::string word = body.text("truncation").value_or("disabled");
  if (word == "auto")
    chat.warnings.emplace_back("truncation: this server cuts nothing; a prompt that is too long is refused");
  else if (word != "disabled")
    fail_field("truncation", "must be auto or disabled, not '{}'", word.substr(0, 40));
}

/// What a response repeats of its request.
json asked_of(const Fields& body) {
  json asked = json::object();
  const std::pair<const char*, json> fields[] = {{"instructions", nullptr},
                                                 {"metadata", json::object()},
                                                 {"temperature", nullptr},
                                                 {"top_p", nullptr},
                                                 {"tool_choice", "auto"},
                                                 {"tools", json::array()},
                                                 {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                                                 {"text", {{"format", {{"type", "text"}}}}},
                                                 {"max_output_tokens", nullptr},
                                                 {"max_tool_calls", nullptr},
                                                 {"top_logprobs", 0},
                                                 {"user", nullptr},
                                                 {"safety_identifier", nullptr},
                                                 {"prompt_cache_key", nullptr}};
  for (const auto& [key, otherwise] : fields) {
    const json* value = body.find(key);
    asked[key] = value != nullptr ? *value : otherwise;
  }
  return asked;
}

}  // namespace

ResponsesRequest read_responses(const json& body, const Reading& reading) {
  const Fields fields(body);
  refuse_state(fields);
  ResponsesRequest request{
      .chat = {.common = read_generation(fields, reading.vocab), .images = {.seen = reading.sees}}};
  ChatRequest& chat = request.chat;
  read_responses_input(fields, request);
  read_responses_tools(fields, request);
  read_text_format(fields, chat);
  refuse_forced_forms(fields);
  read_include(fields, request);
  read_top_logprobs(fields, request);
  read_reasoning(fields, request);
  read_truncation(fields, chat);
  fields.object("metadata");
  if (const auto most = fields.integer("max_output_tokens", 1, INT64_MAX)) chat.common.max_tokens = most;
  if (chat.common.choices > 1) fail_field("n", "this API gives one answer, not {}", chat.common.choices);
  chat.parallel_tool_calls = fields.boolean_or("parallel_tool_calls", true);
  require_answer(chat, fields.has("max_output_tokens") ? "max_output_tokens" : "max_tokens");
  request.asked = asked_of(fields);
  return request;
}

}  // namespace slip::server::api
