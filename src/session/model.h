// Model: a Gemma 4 model, from a name to replies: what commands, the library and the server share. It comes in two
// steps. open() reads headers and the tokenizer, which is quick, so that a bad request is refused before load()
// takes time and memory.
//
// A loaded model owns one engine thread. Any number of threads may submit, cancel and read. What belongs to a
// caller runs on the caller's thread: templates, tokenising, and the sink of generate(). Destroying the model
// cancels what runs, waits for the step at hand, then frees.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "session/chat_style.h"
#include "session/drafters.h"
#include "session/generation.h"
#include "session/options.h"
#include "session/prompt.h"
#include "session/reply.h"
#include "session/vision.h"
#include "text/tokenizer.h"

namespace slip::session {

class EngineThread;

class Model {
 public:
  struct OpenOptions {
    bool tokenizer = true;           // false: ids alone, for checkpoints that have none
    std::string chat_template = {};  // a file that takes the place of the checkpoint's own
    VisionOptions vision = {};
  };
  /// `name`: a checkpoint folder, or a name in the Hugging Face cache; empty = the demonstration model. Throws
  /// Error(kBadFile).
  static std::unique_ptr<Model> open(const std::string& name, const OpenOptions& options);
  static std::unique_ptr<Model> open(const std::string& name) { return open(name, {}); }
  /// A checkpoint that is there already, such as a made-up one.
  explicit Model(std::unique_ptr<checkpoint::Checkpoint> checkpoint,
                 std::optional<text::Tokenizer> tokenizer = {}, ChatStyle chat = {});
  ~Model();

  // Of an opened model.
  const checkpoint::Checkpoint& checkpoint() const { return *checkpoint_; }
  const model::Config& config() const { return checkpoint_->config; }
  /// As it was named; its folder for the demonstration model.
  const std::string& name() const { return name_; }
  bool has_tokenizer() const { return tokenizer_.has_value(); }
  /// Throws Error(kUsage) without one.
  const text::Tokenizer& tokenizer() const;
  const ChatStyle& chat_style() const { return chat_; }
  /// Whether it can be talked to: its tokenizer knows Gemma's turns, or its template does without them.
  bool is_chat() const;

  /// Null where the model reads text alone. Throws Error(kBadFile) when its tower cannot be read.
  Vision* vision() const;
  /// For a checkpoint that is there already: with what it sees. Before anything was looked at.
  void set_vision(checkpoint::Vision vision, VisionOptions options = {});
  /// A picture for a prompt: decoded now, encoded when a request that holds it was submitted. From any thread. Throws
  /// media::Refused for a file that is not read, Error(kUsage) where the model reads text alone.
  Picture look(const PictureFile& file, const PictureOptions& options = {}, std::stop_token stop = {}) const;

  /// From any thread. Throws Error(kUsage) for what the model cannot read. `pictures`: of the parts of the conversation,
  /// in order.
  Prompt prompt(const text::Conversation& conversation, const ChatOptions& options = {},
                std::span<const Picture> pictures = {}) const;
  /// `pictures` stand where <|image|> is in the text.
  Prompt raw(std::string_view text, const RawOptions& options = {},
             std::span<const Picture> pictures = {}) const;
  engine::Request request(const Prompt& prompt, const Generation& generation) const;
  /// Refuses, before weights are loaded, what the engine would refuse after: a prompt that is empty or leaves no
  /// room in a context of `context` tokens (0 = what the model was made for). `what` names it in the sentence.
  void require_room(size_t prompt_tokens, int context, const std::string& what = "the prompt") const;

  /// Finds and reads the drafters without loading them. load() does it by itself when this was not called.
  void open_drafters(const DraftOptions& options);
  /// Packs the weights, loads the drafters and starts the engine. Throws Error.
  void load(const LoadOptions& options);
  bool loaded() const { return engine_ != nullptr; }

  // Of a loaded model; from any thread.
  /// The sink is called on the engine's thread and must never wait there. Throws what Engine::submit() throws.
  uint64_t submit(engine::Request request);
  void cancel(uint64_t id);
  /// Submits and returns when the reply has ended. The sink is called on this thread, and what it throws ends the
  /// request and is passed on. `stop` is asked at least 20 times a second; when it says yes, the reply ends.
  void generate(engine::Request request, ReplySink& sink, const std::function<bool()>& stop = {});
  /// The same, kept whole.
  Reply generate(engine::Request request);
  int context() const { return engine_->context(); }
  /// The longest prompt and answer together that fit into the caches.
  int longest() const { return engine_->longest(); }
  engine::Load load_now() const { return engine_->load(); }
  /// Does something with the backend between two steps, and waits for it.
  void between_steps(const std::function<void(backend::Backend&)>& work);
  /// Sentences of drafters that failed and are not used any more.
  std::vector<std::string> drafter_failures();

  // Effective settings, for people and reports.
  /// "cpu, 2 threads, AVX3_DL, bf16 KV (this machine has no CUDA GPU)".
  std::string device_text() const;
  /// "mtp (gemma-4-E2B-it-assistant, ...) and suffix, depth by measurement".
  const std::string& drafting_text() const { return drafters_->description; }
  /// How many pages of kv::kPagePositions tokens the caches hold together, about; 0 = nobody bounded them.
  int64_t cache_pages() const;
  /// "bf16": how keys and values are stored.
  const char* kv_text() const;
  /// Where the drafters' files were found.
  std::vector<std::string> drafter_paths() const;
  /// What the opened drafters need.
  DraftMemory draft_memory() const { return session::draft_memory(*drafters_); }
  bool drafts() const { return drafters_ && drafters_->speculator != nullptr; }

 private:
  GenerationSource source() const;

  // Destroyed from the last to the first, as they depend on each other.
  std::string name_, folder_;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;  // the backend reads embedding rows from it
  std::optional<text::Tokenizer> tokenizer_;
  ChatStyle chat_;
  std::unique_ptr<backend::Backend> backend_;
  VisionOptions vision_options_;
  mutable std::mutex vision_mutex_;  // guards opening it
  mutable bool vision_opened_ = false;
  mutable std::unique_ptr<Vision> vision_;  // its tower works on the backend's threads
  mutable std::atomic<Vision*> seeing_{nullptr};
  std::string device_note_;
  std::string backend_text_;
  std::optional<Drafters> drafters_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<EngineThread> thread_;
};

}  // namespace slip::session
