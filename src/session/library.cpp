// The public interface (include/slipstream/slipstream.h) on top of the session: translation, nothing else.
#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <utility>

#include "base/error.h"
#include "media/media_file.h"
#include "session/build_info.h"
#include "session/delta_queue.h"
#include "session/model.h"
#include "session/system_info.h"
#include "slipstream/slipstream.h"
#include "text/conversation.h"

namespace slip {
namespace {

// Of the memory left beside the weights, for the caches of all sequences.
constexpr double kCacheShare = 0.8;

Finish finish_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kNone: return Finish::kNone;
    case engine::FinishReason::kStopId:
    case engine::FinishReason::kStopString: return Finish::kStop;
    case engine::FinishReason::kMaxTokens:
    case engine::FinishReason::kContext: return Finish::kLength;
    case engine::FinishReason::kCancelled: return Finish::kCancelled;
    case engine::FinishReason::kError: return Finish::kError;
  }
  return Finish::kError;
}

Statistics statistics_of(const engine::Stats& stats) {
  return {.prompt_tokens = stats.prompt_tokens,
          .output_tokens = stats.output_tokens,
          .reasoning_tokens = stats.reasoning_tokens,
          .cached_tokens = stats.cached_tokens,
          .queued_seconds = stats.queued_s,
          .first_token_seconds = stats.first_token_s,
          .prompt_seconds = stats.prompt_s,
          .decode_seconds = stats.decode_s,
          .passes = stats.speculation.rounds,
          .drafted = stats.speculation.drafted,
          .accepted = stats.speculation.accepted};
}

Event event_of(const text::ReplyEvent& event) {
  using Kind = text::ReplyEvent::Kind;
  switch (event.kind) {
    case Kind::kReasoning: return {.kind = Event::Kind::kReasoning, .text = event.text};
    case Kind::kText: return {.kind = Event::Kind::kText, .text = event.text};
    case Kind::kToolCall: break;
  }
  return {.kind = Event::Kind::kToolCall, .name = event.name, .arguments = event.arguments};
}

session::Generation generation_of(const GenerateOptions& options) {
  session::Generation generation;
  generation.sampling.temperature = options.temperature;
  generation.sampling.top_p = options.top_p;
  generation.sampling.min_p = options.min_p;
  generation.sampling.top_k = options.top_k;
  generation.sampling.repetition_penalty = options.repetition_penalty;
  generation.sampling.presence_penalty = options.presence_penalty;
  generation.sampling.frequency_penalty = options.frequency_penalty;
  generation.sampling.seed = options.seed;
  generation.max_tokens = options.max_tokens;
  generation.stop_strings = options.stop;
  generation.draft = options.draft;
  return generation;
}

session::LoadOptions load_options_of(const LoadOptions& options) {
  session::LoadOptions load;
  load.backend.device = options.device == Device::kCpu    ? session::DeviceKind::kCpu
                        : options.device == Device::kCuda ? session::DeviceKind::kCuda
                                                          : session::DeviceKind::kAuto;
  load.backend.device_index = options.device_index;
  load.backend.threads = options.threads;
  load.draft.kind = options.draft ? session::Drafting::kAuto : session::Drafting::kNone;
  load.draft.models = options.draft_models;
  load.engine = {.context = options.context, .sequences = options.sequences};
  load.engine.cache_bytes = options.cache_bytes;
  if (options.cache_bytes == 0) {
    const auto available = static_cast<double>(session::memory_info().available);
    load.engine.cache_bytes = available > 0 ? static_cast<size_t>(available * kCacheShare) : ~size_t{0};
  }
  load.picture_tokens = options.image_tokens;
  load.progress = options.progress;
  return load;
}

text::Turn turn_of(const Message& message) {
  using Kind = text::ContentPart::Kind;
  text::Turn turn{text::role_of(message.role), message.content};
  if (message.images.empty()) return turn;
  if (turn.role != text::Role::kUser)
    fail_usage("a message of the role {} cannot hold pictures; put them into a user's", message.role);
  turn.parts.assign(message.images.size(), {Kind::kImage, {}});
  turn.parts.push_back({Kind::kText, std::exchange(turn.text, {})});
  return turn;
}

session::Picture look(const session::Model& model, const Image& image) {
  session::PictureOptions options;
  if (image.tokens != 0) options.soft_tokens = image.tokens;
  if (image.file.empty()) return model.look({.name = "a picture", .bytes = image.bytes}, options);
  const session::Vision* vision = model.vision();
  const media::Limits limits = vision == nullptr ? media::Limits{} : vision->limits();
  return model.look({.name = image.file, .bytes = media::read_media_file(image.file, limits)}, options);
}

}  // namespace

struct Model::Impl {
  std::unique_ptr<session::Model> model;

  session::Model& loaded() const {
    if (!model->loaded()) fail_usage("{}: is opened but not loaded; call load() first", model->name());
    return *model;
  }
};

struct Stream::State {
  std::weak_ptr<Model::Impl> owner;
  uint64_t id = 0;
  session::DeltaQueue queue;
  std::deque<Event> events;  // that arrived and were not asked for yet
  Reply reply;
  std::optional<Error> failure;

  bool ended() const { return reply.finish != Finish::kNone; }
  void on_delta(const engine::Delta& delta);
  void cancel() {
    if (const auto model = owner.lock()) model->model->cancel(id);
  }
};

void Stream::State::on_delta(const engine::Delta& delta) {
  if (delta.token >= 0) reply.tokens.push_back(delta.token);
  for (const text::ReplyEvent& from : delta.events) {
    Event event = event_of(from);
    if (event.kind == Event::Kind::kReasoning) reply.reasoning += event.text;
    if (event.kind == Event::Kind::kText) reply.text += event.text;
    if (event.kind == Event::Kind::kToolCall) reply.tool_calls.push_back(event);
    events.push_back(std::move(event));
  }
  if (delta.finish == engine::FinishReason::kNone) return;
  reply.finish = finish_of(delta.finish);
  reply.statistics = statistics_of(*delta.stats);
  if (reply.finish == Finish::kError) {
    failure.emplace(delta.error_kind, std::string(delta.error));
  } else {
    events.push_back({.kind = Event::Kind::kEnd, .finish = reply.finish});
  }
}

Stream::Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Stream::~Stream() {
  if (state_ && !state_->ended()) state_->cancel();
}

std::optional<Event> Stream::next() {
  constexpr std::chrono::hours kLong{1};
  while (state_->events.empty() && !state_->ended()) {
    if (const auto delta = state_->queue.pop(kLong)) state_->on_delta(delta->view());
  }
  if (state_->events.empty()) {
    if (state_->failure) throw *state_->failure;
    return std::nullopt;
  }
  Event event = std::move(state_->events.front());
  state_->events.pop_front();
  return event;
}

void Stream::cancel() {
  state_->cancel();
}

const Reply& Stream::reply() const {
  return state_->reply;
}

Model::Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::open(const std::string& name, const OpenOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->model =
      session::Model::open(name, {.vision = {.decoder = {.worker = {.program = options.media_worker}}}});
  return Model(std::move(impl));
}

Model& Model::load(const LoadOptions& options) & {
  if (impl_->model->loaded()) fail_usage("{}: is loaded already", impl_->model->name());
  impl_->model->load(load_options_of(options));
  return *this;
}

Model&& Model::load(const LoadOptions& options) && {
  load(options);
  return std::move(*this);
}

// The queue lives as long as the request or the stream, whichever is longer.
Stream Model::start(const session::Prompt& prompt, session::Generation generation) {
  session::Model& model = impl_->loaded();
  auto state = std::make_shared<Stream::State>();
  state->owner = impl_;
  engine::Request request = model.request(prompt, generation);
  state->reply.seed = request.sampling.seed;
  request.sink = [state](const engine::Delta& delta) { state->queue.push(delta); };
  state->id = model.submit(std::move(request));
  return Stream(std::move(state));
}

Stream Model::generate(std::string_view message, const GenerateOptions& options) {
  if (!impl_->model->is_chat()) return complete(message, options);
  return chat({{.role = "user", .content = std::string(message)}}, options);
}

Stream Model::chat(const std::vector<Message>& messages, const GenerateOptions& options) {
  text::Conversation conversation{{}, text::parse_tools(options.tools)};
  std::vector<session::Picture> pictures;
  for (const Message& message : messages) {
    conversation.turns.push_back(turn_of(message));
    for (const Image& image : message.images) pictures.push_back(look(impl_->loaded(), image));
  }
  return start(impl_->loaded().prompt(conversation, {.thinking = options.thinking}, pictures),
               generation_of(options));
}

Stream Model::chat_json(std::string_view messages, const GenerateOptions& options) {
  const text::Conversation conversation{text::parse_messages(messages), text::parse_tools(options.tools)};
  if (conversation.turns.empty()) fail_usage("\"messages\" is empty; give at least one message");
  for (const text::Turn& turn : conversation.turns) {
    for (const text::ContentPart& part : turn.parts) {
      if (part.kind != text::ContentPart::Kind::kText)
        fail_usage("messages: a list in JSON holds text alone here; chat() takes pictures");
    }
  }
  return start(impl_->loaded().prompt(conversation, {.thinking = options.thinking}), generation_of(options));
}

Stream Model::complete(std::string_view text, const GenerateOptions& options) {
  session::Generation generation = generation_of(options);
  generation.form = session::ReplyForm::kText;
  return start(impl_->loaded().raw(text), generation);
}

Reply Model::generate(std::string_view message, const GenerateOptions& options,
                      const std::function<bool(const Event&)>& on_event) {
  Stream stream = generate(message, options);
  bool wanted = true;
  while (const auto event = stream.next()) {
    if (!wanted || on_event(*event)) continue;
    wanted = false;
    stream.cancel();
  }
  return stream.reply();
}

std::vector<int> Model::tokenize(std::string_view text) const {
  return impl_->model->tokenizer().encode(text, {.specials = false});
}

std::string Model::detokenize(const std::vector<int>& tokens) const {
  return impl_->model->tokenizer().decode(tokens);
}

int Model::context() const {
  return impl_->loaded().context();
}

std::string Model::description() const {
  const session::Model& model = impl_->loaded();
  return fmt::format("{}; drafting: {}", model.device_text(), model.drafting_text());
}

std::string_view version() {
  return session::build_version();
}

}  // namespace slip
