// The routes that tell: about the server, the model, and texts as tokens.
#include <fmt/format.h>

#include "kv/layout.h"
#include "server/api/chat_request.h"
#include "server/api/service_call.h"
#include "session/build_info.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

constexpr std::string_view kPage = R"(slipstream

POST /v1/chat/completions   messages in, an answer out; with "stream": true as it is written
POST /v1/completions        a raw prompt in, its continuation out
POST /v1/responses          OpenAI's newer form, what Codex asks
POST /v1/messages           Anthropic's form, what Claude Code asks
POST /api/chat              ollama's form
GET  /v1/models             the model that runs here
POST /tokenize  /detokenize  /apply-template
GET  /health  /ready  /version  /props  /slots  /metrics

  curl URL/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"messages": [{"role": "user", "content": "Hello!"}]}'
)";

Json slot_json(const AnswerState& state, int index) {
  return {{"id", index},
          {"request", state.id},
          {"route", state.route},
          {"is_processing", state.written > 0},
          {"stream", state.stream},
          {"n", state.choices},
          {"prompt_tokens", state.prompt_tokens},
          {"tokens_written", state.written},
          {"max_tokens", state.max_tokens},
          {"seconds", state.seconds}};
}

}  // namespace

void Service::page(Call& call) {
  call.exchange->respond(200, {{"Content-Type", "text/plain; charset=utf-8"}}, std::string(kPage));
}

void Service::health(Call& call) {
  require_ready();
  respond_json(*call.exchange, {{"status", "ok"}});
}

void Service::version(Call& call) {
  respond_json(*call.exchange, {{"version", session::build_version()},
                                {"commit", session::build_commit()},
                                {"build", session::build_type()},
                                {"compiler", session::build_compiler()}});
}

void Service::models(Call& call) {
  respond_json(*call.exchange, {{"object", "list"}, {"data", Json::array({card_->entry()})}});
}

void Service::model(Call& call) {
  const std::string name = call.request.path.substr(std::string_view("/v1/models/").size());
  if (!card_->answers_to(name)) {
    throw ApiError(
        404, "model_not_found",
        fmt::format("there is no model '{}' here; this server runs '{}'", name.substr(0, 200), card_->id()),
        "model");
  }
  respond_json(*call.exchange, card_->entry());
}

void Service::properties(Call& call) {
  Json body = card_->properties();
  const engine::Load load = replies_->load();
  body["total_slots"] = load.sequences;
  body["kv"] = {{"type", replies_->kv_text()},
                {"bytes", load.cache_bytes == ~size_t{0} ? Json() : Json(load.cache_bytes)},
                {"page_positions", kv::kPagePositions},
                {"longest_request", replies_->longest()}};
  body["limits"] = {{"sequences", load.sequences},
                    {"queue", options_.limits.queue},
                    {"request_tokens", options_.limits.request_tokens},
                    {"deadline_s", options_.limits.deadline_s}};
  // Drafters that failed are not used any more, and people should see it.
  body["fallbacks"] = model_->loaded() ? model_->drafter_failures() : std::vector<std::string>();
  respond_json(*call.exchange, body);
}

void Service::slots(Call& call) {
  Json list = Json::array();
  for (const AnswerState& state : roster_.states()) {
    if (state.key == call.request.key) list.push_back(slot_json(state, static_cast<int>(list.size())));
  }
  respond_json(*call.exchange, list);
}

void Service::metrics_text(Call& call) {
  call.exchange->respond(200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                         metrics_->text(replies_->load(), kv::kPagePositions, replies_->cache_pages()));
}

std::vector<int> Service::ids_of_conversation(const Call& call, const json& body) const {
  ChatRequest request;
  request.images.seen = sees_;
  read_conversation(body, request, call.request.body);
  std::vector<std::string> ignored;
  const session::Prompt prompt = prompt_of(call, request, ignored);
  std::vector<int> ids;
  for (const session::Segment& segment : prompt.segments()) {
    ids.insert(ids.end(), segment.ids.begin(), segment.ids.end());
    if (segment.media)
      ids.insert(ids.end(), static_cast<size_t>(segment.media->rows), model_->vision()->tokens().image);
  }
  return ids;
}

// llama.cpp calls the text "content" and adds no <bos> by itself; vLLM calls it "prompt" and does. Or a conversation.
void Service::tokenize(Call& call) {
  const json body = parse_body(call.request.body);
  const Fields fields(body);
  const auto content = fields.text("content");
  const auto prompt = fields.text("prompt");
  std::vector<int> ids;
  if (content || prompt) {
    bool bos = fields.boolean_or("add_special", !content);
    bos = fields.boolean_or("add_special_tokens", bos);
    ids = model_->tokenizer().encode(content ? *content : *prompt,
                                     {.specials = fields.boolean_or("parse_special", true), .add_bos = bos});
  } else if (fields.has("messages")) {
    ids = ids_of_conversation(call, body);
  } else {
    fail_field("content", "is missing; give content, prompt or messages");
  }
  Json tokens = Json::array();
  const bool pieces = fields.boolean_or("with_pieces", false);
  for (const int id : ids)
    tokens.push_back(pieces ? Json{{"id", id}, {"piece", model_->tokenizer().piece(id)}} : Json(id));
  Json answer{{"tokens", std::move(tokens)}, {"count", ids.size()}, {"max_model_len", card_->context()}};
  if (fields.boolean_or("return_token_strs", false)) {
    answer["token_strs"] = Json::array();
    for (const int id : ids) answer["token_strs"].push_back(model_->tokenizer().piece(id));
  }
  respond_json(*call.exchange, answer);
}

void Service::detokenize(Call& call) {
  const json body = parse_body(call.request.body);
  const auto ids = Fields(body).ids("tokens", model_->config().vocab);
  if (!ids) fail_field("tokens", "is missing");
  const std::string text = model_->tokenizer().decode(*ids);
  respond_json(*call.exchange, {{"content", text}, {"prompt", text}});  // llama.cpp's name, and vLLM's
}

void Service::apply_template(Call& call) {
  const json body = parse_body(call.request.body);
  const std::vector<int> ids = ids_of_conversation(call, body);
  respond_json(*call.exchange, {{"prompt", model_->tokenizer().decode(ids)}});
}

}  // namespace slip::server::api
