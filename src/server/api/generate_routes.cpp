// The routes that generate: from a body to requests of the engine and the writer of their answer.
#include <fmt/format.h>

#include <algorithm>

#include "kv/page_key.h"
#include "server/api/chat_reply.h"
#include "server/api/chat_request.h"
#include "server/api/completion_reply.h"
#include "server/api/completion_request.h"
#include "server/api/service_call.h"
#include "session/build_info.h"
#include "session/reply_stream.h"

namespace slip::server::api {

using nlohmann::json;

namespace {

constexpr int kLikelyAnswer = 1024;  // tokens, where more are allowed: for estimates

/// Pages and pictures are one key's own; the salt is nobody's where there is neither key nor salt.
kv::Salt salt_of(const std::string& key, const std::string& salt) {
  if (key.empty() && salt.empty()) return {};
  return kv::salt_of(key + '\n' + salt);
}

/// Most tokens that may follow the prompt, of `most` in all. `field` is where it was sent.
int64_t room_for(const session::Prompt& prompt, int most, const char* field) {
  if (prompt.size() == 0)
    throw ApiError(400, "invalid_value", "the prompt is empty; give at least one token", field);
  const auto room = static_cast<size_t>(std::max(most, 1));
  if (prompt.size() >= room) {
    throw ApiError(400, "context_length_exceeded",
                   fmt::format("prompt is too long: {} tokens > {} maximum", prompt.size(), room - 1), field);
  }
  return static_cast<int64_t>(room - prompt.size());
}

Json seed_json(const GenerationFields& common, uint64_t seed) {
  return common.negative_seed ? Json(static_cast<int64_t>(seed)) : Json(seed);
}

/// The reply goes on behind these tokens of the prompt, which were told before.
void go_on_from(engine::ReplyStream& stream, const std::vector<int>& ids) {
  std::vector<text::ReplyEvent> told;
  for (const int id : ids) stream.push(id, told);
}

/// Whether the beginning of a reply stops within a call.
bool stops_in_call(const text::Tokenizer& tokenizer, const session::Prompt& prompt,
                   const std::vector<int>& ids) {
  if (ids.empty()) return false;
  const auto stream = session::chat_reply_stream(tokenizer, prompt.in_thought);
  go_on_from(*stream, ids);
  return stream->place() == text::Place::kToolCall;
}

std::optional<double> shorter(std::optional<double> asked, double limit) {
  if (limit <= 0) return asked;
  return std::min(asked.value_or(limit), limit);
}

}  // namespace

void Service::require_named(const json& body) const {
  const std::string name = Fields(body).text("model").value_or("");
  if (card_->answers_to(name)) return;
  throw ApiError(
      404, "model_not_found",
      fmt::format("there is no model '{}' here; this server runs '{}'", name.substr(0, 200), card_->id()),
      "model");
}

Reading Service::reading() const {
  return {.vocab = model_->config().vocab, .sees = sees_};
}

session::Prompt Service::prompt_of(const Call& call, const ChatRequest& chat,
                                   std::vector<std::string>& notes) const {
  const std::vector<ImagePart> parts = in_order(chat.conversation, chat.images);
  const int limit = options_.limits.request_tokens;
  const int longest = limit > 0 ? std::min(limit, replies_->longest()) : replies_->longest();
  const std::vector<session::Picture> pictures =
      look_at(*model_, parts, options_.images,
              {.soft_tokens = chat.image_tokens,
               .salt = salt_of(call.request.key, chat.common.cache_salt),
               .room = static_cast<size_t>(longest)});
  for (const session::Picture& picture : pictures) {
    const session::PictureFacts& facts = picture.facts();
    notes.push_back(fmt::format("{}: {} x {}, seen as {} x {} in {} tokens{}", picture.name, facts.width,
                                facts.height, facts.seen_width, facts.seen_height, facts.soft_tokens,
                                picture.known ? ", known" : ""));
  }
  return model_->prompt(chat.conversation, chat.options, pictures);
}

Service::ChatJob Service::chat_job(const Call& call, ChatRequest chat, std::string prefix) const {
  session::Prompt prompt = prompt_of(call, chat, chat.notes);
  ChatJob made;
  made.reply = {.parallel_calls = chat.parallel_tool_calls,
                .logprobs = chat.common.generation.sampling.logprobs.has_value(),
                .drafts = chat.common.report_drafts,
                .begun = chat.options.continue_last || !chat.common.continue_ids.empty(),
                .choices = chat.common.choices,
                .tokenizer = &model_->tokenizer()};
  made.job = {.common = std::move(chat.common),
              .warnings = std::move(chat.warnings),
              .notes = std::move(chat.notes),
              .prefix = std::move(prefix)};
  made.reply.in_call = stops_in_call(model_->tokenizer(), prompt, made.job.common.continue_ids);
  prompt.add(made.job.common.continue_ids);
  made.job.prompts.push_back(std::move(prompt));
  made.reply.tools = std::move(chat.conversation.tools);
  return made;
}

void Service::generate(Call& call, Job job) {
  GenerationFields& common = job.common;
  session::Generation& generation = common.generation;
  // Who does not say gets the room that is left: pages are taken as the answer grows.
  const int64_t asked =
      common.max_tokens.value_or(options_.answer_tokens > 0 ? options_.answer_tokens : INT64_MAX);
  generation.salt = salt_of(call.request.key, common.cache_salt);

  Answer::Plan plan{.exchange = call.exchange, .path = call.request.path};
  double prompt_tokens = 0, answer_tokens = 0;
  const int least = generation.min_tokens, limit = options_.limits.request_tokens;
  const int longest = limit > 0 ? std::min(limit, replies_->longest()) : replies_->longest();
  for (const session::Prompt& prompt : job.prompts) {
    const int64_t room = room_for(prompt, longest, job.field);
    generation.max_tokens = static_cast<int>(std::min(asked, room));
    generation.min_tokens = std::min(least, generation.max_tokens);
    prompt_tokens += static_cast<double>(prompt.size());
    for (int choice = 0; choice < common.choices; ++choice) {
      generation.choice = choice;
      plan.requests.push_back(model_->request(prompt, generation));
      if (plan.requests.back().reply) go_on_from(*plan.requests.back().reply, common.continue_ids);
      if (!generation.sampling.seed) generation.sampling.seed = plan.requests.back().sampling.seed;
      answer_tokens += std::min(generation.max_tokens, kLikelyAnswer);
    }
  }

  const std::string& id = call.request.id;
  ReplyFrame frame{
      .id = job.prefix + id.substr(id.find('-') + 1),
      .object = common.stream ? job.chunk : job.object,
      .model = card_->id(),
      .fingerprint = fmt::format("slip-{}-{}", session::build_version(), card_->fingerprint().substr(0, 8)),
      .created = std::time(nullptr),
      .seed = seed_json(common, *generation.sampling.seed),
      .warnings = job.warnings,
      .include_usage = common.include_usage};
  plan.writer = job.writer(std::move(frame));
  plan.record = {.id = id,
                 .route = call.route,
                 .key = call.request.key,
                 .stream = common.stream,
                 .choices = common.choices,
                 .max_tokens = generation.max_tokens,
                 .generated = true,
                 .no_answer = job.no_answer};
  plan.deadline_s = shorter(common.deadline_s, options_.limits.deadline_s);
  plan.on_token_time = [this](double seconds) { metrics_->token_time(seconds); };

  const Newcomer newcomer{.replies = static_cast<int>(plan.requests.size()),
                          .prompt_tokens = prompt_tokens,
                          .deadline_s = plan.deadline_s};
  const uint64_t place = roster_.enter(replies_->load(), newcomer, answer_tokens);
  plan.on_done = [this, place](const RequestRecord& record) {
    note(record);
    roster_.leave(place);
  };
  try {
    roster_.seat(place, Answer::start({*replies_, workers_, timers_}, std::move(plan)));
  } catch (...) {
    roster_.leave(place);
    throw;
  }
  call.generating = true;
  for (const std::string& warning : job.warnings) say(fmt::format("{} warning: {}", id, warning));
  for (const std::string& note : job.notes) say(fmt::format("{} {}", id, note));
}

void Service::chat(Call& call) {
  const json body = parse_body(call.request.body);
  require_named(body);
  ChatJob chat = chat_job(call, read_chat(body, reading(), call.request.body), "chatcmpl-");
  const bool stream = chat.job.common.stream;
  chat.job.writer = [&reply = chat.reply, stream](ReplyFrame frame) {
    reply.frame = std::move(frame);
    return stream ? chat_stream(std::move(reply)) : whole_chat(std::move(reply));
  };
  generate(call, std::move(chat.job));
}

void Service::complete(Call& call) {
  const json body = parse_body(call.request.body);
  require_named(body);
  CompletionRequest completion = read_completion(body, model_->config().vocab);
  const text::Tokenizer& tokenizer = model_->tokenizer();
  const bool spelled = completion.common.generation.form == session::ReplyForm::kSpelled;
  Job job{.common = std::move(completion.common),
          .field = "prompt",
          .prefix = "cmpl-",
          .object = "text_completion",
          .chunk = "text_completion",
          .no_answer = completion.no_answer};
  CompletionReplyOptions options{.echo = completion.echo,
                                 .answer = !completion.no_answer,
                                 .spelled = spelled,
                                 .drafts = job.common.report_drafts,
                                 .logprobs = job.common.generation.sampling.logprobs.value_or(-1),
                                 .tokenizer = &tokenizer};
  for (auto& prompt : completion.prompts) {
    std::string echo;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      job.prompts.push_back(model_->raw(*text, completion.raw));
      if (completion.echo) echo = *text;
    } else {
      auto& ids = std::get<std::vector<int>>(prompt);
      if (completion.echo) echo = tokenizer.decode(ids, {.skip_specials = !spelled});
      job.prompts.emplace_back(std::move(ids));
    }
    job.prompts.back().add(job.common.continue_ids);
    options.echoes.insert(options.echoes.end(), static_cast<size_t>(job.common.choices), echo);
  }
  options.replies = options.echoes.size();
  const bool stream = job.common.stream;
  job.writer = [&options, stream](ReplyFrame frame) {
    options.frame = std::move(frame);
    return stream ? completion_stream(std::move(options)) : whole_completion(std::move(options));
  };
  generate(call, std::move(job));
}

}  // namespace slip::server::api
