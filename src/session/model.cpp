#include "session/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/vision.h"
#include "hub/local.h"
#include "session/default_model.h"
#include "session/delta_queue.h"
#include "session/device.h"
#include "session/engine_thread.h"
#include "session/picture_prompt.h"
#include "text/chat_template.h"
#include "text/rendered.h"

namespace slip::session {
namespace {

bool shows_pictures(const text::Conversation& conversation) {
  using Kind = text::ContentPart::Kind;
  bool found = false;
  for (const text::Turn& turn : conversation.turns) {
    for (const text::ContentPart& part : turn.parts) {
      if (part.kind == Kind::kAudio || part.kind == Kind::kVideo)
        fail_usage("sounds and videos cannot be read yet; send text and pictures");
      found |= part.kind == Kind::kImage;
    }
  }
  return found;
}

}  // namespace

std::unique_ptr<Model> Model::open(const std::string& name, const OpenOptions& options) {
  const std::string folder = name.empty() ? default_model() : hub::resolve_model(name);
  auto model = std::make_unique<Model>(checkpoint::open(folder));
  model->name_ = name.empty() ? folder : name;
  model->folder_ = folder;
  model->vision_options_ = options.vision;
  if (options.tokenizer) {
    model->tokenizer_ = text::Tokenizer::load(folder + "/tokenizer.json");
    model->chat_ = session::chat_style(folder, model->config(), options.chat_template);
  }
  return model;
}

Model::Model(std::unique_ptr<checkpoint::Checkpoint> checkpoint, std::optional<text::Tokenizer> tokenizer,
             ChatStyle chat)
    : name_(checkpoint->path),
      folder_(checkpoint->path),
      checkpoint_(std::move(checkpoint)),
      tokenizer_(std::move(tokenizer)),
      chat_(std::move(chat)) {}

Model::~Model() = default;

const text::Tokenizer& Model::tokenizer() const {
  if (!tokenizer_) fail_usage("{}: was opened without a tokenizer; give token ids", checkpoint_->path);
  return *tokenizer_;
}

bool Model::is_chat() const {
  if (!tokenizer_) return false;
  return has_turns(*tokenizer_) || (chat_.own != nullptr && !text::has_turns(chat_.own->source()));
}

void Model::set_vision(checkpoint::Vision vision, VisionOptions options) {
  const std::lock_guard lock(vision_mutex_);
  SLIP_CHECK(!vision_opened_);
  vision_opened_ = true;
  vision_ = std::make_unique<Vision>(std::move(vision), checkpoint_->path, config().bidirectional_media,
                                     std::move(options));
  seeing_ = vision_.get();
}

Vision* Model::vision() const {
  const std::lock_guard lock(vision_mutex_);
  if (vision_opened_) return vision_.get();
  // A made-up checkpoint has no files, and no tower.
  std::optional<checkpoint::Vision> part;
  if (!checkpoint_->files.empty()) part = checkpoint::open_vision(*checkpoint_);
  vision_opened_ = true;
  if (part) {
    vision_ = std::make_unique<Vision>(std::move(*part), checkpoint_->path, config().bidirectional_media,
                                       vision_options_);
    seeing_ = vision_.get();
  }
  return vision_.get();
}

Picture Model::look(const PictureFile& file, const PictureOptions& options, std::stop_token stop) const {
  Vision* eyes = vision();
  if (eyes == nullptr)
    fail_usage("{}: {} reads text alone, so it cannot see pictures; use a model with vision", file.name,
               name_);
  return eyes->look(file, options, stop);
}

Prompt Model::prompt(const text::Conversation& conversation, const ChatOptions& options,
                     std::span<const Picture> pictures) const {
  if (!is_chat()) {
    fail_usage("{}: the tokenizer has no chat turns, so there is no talking to it; send the prompt raw",
               checkpoint_->path);
  }
  const bool shows = shows_pictures(conversation);
  if (shows && vision() == nullptr)
    fail_usage("{} reads text alone, so it cannot see pictures; use a model with vision", name_);
  std::vector<int> ids = text::encode(*tokenizer_, chat_.render(conversation, options));
  const bool in_thought = ends_in_thought(*tokenizer_, ids);
  Prompt prompt =
      shows || !pictures.empty() ? with_pictures(ids, pictures, vision()->tokens()) : Prompt(std::move(ids));
  prompt.in_thought = in_thought;
  return prompt;
}

Prompt Model::raw(std::string_view text, const RawOptions& options, std::span<const Picture> pictures) const {
  Prompt prompt = raw_prompt(tokenizer(), text, options);
  if (pictures.empty()) return prompt;
  return with_pictures(prompt.segments().front().ids, pictures, vision()->tokens());
}

GenerationSource Model::source() const {
  return {*checkpoint_, tokenizer_ ? &*tokenizer_ : nullptr};
}

engine::Request Model::request(const Prompt& prompt, const Generation& generation) const {
  return make_request(source(), prompt, generation);
}

void Model::require_room(size_t prompt_tokens, int context, const std::string& what) const {
  const int most = config().max_positions;
  if (context > most)
    fail_usage("--context must be a whole number from 1 to {} for this model, not {}", most, context);
  if (prompt_tokens == 0) fail_usage("{} is empty; give at least one token", what);
  const int room = context > 0 ? context : most;
  if (prompt_tokens >= static_cast<size_t>(room)) {
    fail_usage("{} has {} tokens and the context {}, which leaves no room for an answer; shorten it{}", what,
               prompt_tokens, room, context > 0 ? " or raise --context" : "");
  }
}

void Model::open_drafters(const DraftOptions& options) {
  drafters_ = session::open_drafters(options, name_, folder_, *checkpoint_);
}

void Model::load(const LoadOptions& options) {
  if (!drafters_) open_drafters(options.draft);
  BackendOptions device = options.backend;
  // Rows that see each other in both directions come in one step, and the others have a row in it too.
  if (config().bidirectional_media)
    device.step_rows = std::max(device.step_rows, options.picture_tokens + options.engine.sequences);
  LoadedBackend loaded = load_backend(*checkpoint_, device, options.progress);
  backend_ = std::move(loaded.backend);
  device_note_ = std::move(loaded.note);
  backend_text_ = backend_->description();
  load_drafters(*drafters_, options.draft, *backend_, options.engine.sequences);
  engine_ = std::make_unique<engine::Engine>(*backend_, options.engine, drafters_->speculator.get());
  if (options.vision && vision() != nullptr) vision()->load(*backend_);
  thread_ = std::make_unique<EngineThread>(*engine_, [this](double seconds) {
    Vision* eyes = seeing_;
    return eyes != nullptr && eyes->run_slice(*backend_, seconds);
  });
}

uint64_t Model::submit(engine::Request request) {
  if (Vision* eyes = seeing_) {
    for (const engine::MediaSpan& span : request.media) eyes->want(span.key);
  }
  return thread_->submit(std::move(request));
}

void Model::cancel(uint64_t id) {
  thread_->cancel(id);
}

void Model::generate(engine::Request request, ReplySink& sink, const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  DeltaQueue queue;
  request.sink = queue.sink();
  const uint64_t id = submit(std::move(request));
  std::exception_ptr failure;
  bool cancelled = false;
  for (bool ended = false; !ended;) {
    const auto delta = queue.pop(kBetweenLooks);
    if (delta) {
      ended = delta->view().finish != engine::FinishReason::kNone;
      // The queue must see the end of the request, whatever the sink does.
      try {
        if (!failure) sink.on_delta(delta->view());
      } catch (...) {
        failure = std::current_exception();
      }
    }
    if (!ended && !cancelled && (failure || (stop && stop()))) {
      cancelled = true;
      cancel(id);
    }
  }
  if (failure) std::rethrow_exception(failure);
}

Reply Model::generate(engine::Request request) {
  Reply reply;
  generate(std::move(request), reply);
  return reply;
}

void Model::between_steps(const std::function<void(backend::Backend&)>& work) {
  thread_->run([&] { work(*backend_); });
}

std::vector<std::string> Model::drafter_failures() {
  std::vector<std::string> failures;
  if (!drafts()) return failures;
  thread_->run([&] { failures = drafters_->speculator->failures(); });
  return failures;
}

int64_t Model::cache_pages() const {
  const size_t budget = engine_->load().cache_bytes;
  if (budget == ~size_t{0}) return 0;
  // Windows of sliding layers are shared out over a long text.
  const int64_t pages = std::max(kv::pages_for(engine_->context()), int64_t{1});
  const size_t each = backend_->kv_layout().bytes_at(pages * kv::kPagePositions) / static_cast<size_t>(pages);
  return each == 0 ? 0 : static_cast<int64_t>(budget / each);
}

const char* Model::kv_text() const {
  return backend_->kv_layout().storage() == kv::Storage::kBf16 ? "bf16" : "f32";
}

std::vector<std::string> Model::drafter_paths() const {
  std::vector<std::string> paths;
  if (drafters_ && drafters_->assistant != nullptr) paths.push_back(drafters_->assistant->path);
  if (drafters_ && drafters_->dflash != nullptr) paths.push_back(drafters_->dflash->path);
  return paths;
}

std::string Model::device_text() const {
  return device_note_.empty() ? backend_text_ : fmt::format("{} ({})", backend_text_, device_note_);
}

}  // namespace slip::session
