// Slipstream as a library: Gemma 4 models on the CPU or an NVIDIA GPU, with speculative decoding that changes the
// speed and never the text.
//
//   slip::Model model = slip::Model::open("google/gemma-4-E2B-it").load();
//   for (const slip::Event& event : model.generate("Why is the sky blue?")) std::cout << event.text;
//
// A loaded model may be used from any number of threads at once: its requests share each pass over the weights,
// and each gets the text it would get alone. Everything here throws slip::Error, whose sentence says what is
// wrong and what to do. Nothing of a third party is in this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/error.h"

namespace slip {

namespace session {
class Prompt;
struct Generation;
}  // namespace session

enum class Device {
  kAuto,  // a GPU if the model fits on it, else the CPU
  kCpu,
  kCuda,
};

struct OpenOptions {
  /// The program that decodes pictures, each in a sandboxed process of its own: slipstream-media-worker. Empty: found
  /// beside the program, or where it was installed by its build. The CMake package defines SLIPSTREAM_MEDIA_WORKER as the
  /// one it came with; pkg-config tells it as --variable=media_worker.
  std::string media_worker = {};
};

struct LoadOptions {
  Device device = Device::kAuto;
  int device_index = 0;  // of several GPUs
  int threads = 0;       // 0 = one per core
  int context = 0;       // longest prompt and reply together, in tokens; 0 = what the model was made for
  int sequences = 8;     // replies written at the same time; more wait
  std::size_t cache_bytes = 0;  // for what all of them remember; 0 = most of the memory that is left
  bool draft = true;            // false: plain decoding, the same text
  std::vector<std::string> draft_models = {};  // empty: the model's own assistant, where it is found
  int image_tokens = 280;  // the most that a picture may become; more take more memory with some models
  /// Bytes done and in all while the weights are loaded. What it throws ends the load.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

/// Empty fields are the model's to fill: its makers recommend values.
struct GenerateOptions {
  int max_tokens = 0;  // 0 = 8192
  std::optional<float> temperature = {}, top_p = {}, min_p = {};
  std::optional<int> top_k = {};
  std::optional<float> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
  std::optional<std::uint64_t> seed = {};  // the same seed gives the same text
  std::vector<std::string> stop = {};      // the reply ends before these
  bool thinking = false;                   // let the model think before it answers
  bool draft = true;                       // false: this request is decoded plainly
  std::string tools = {};  // a JSON list of functions in OpenAI's form, which the model may call
};

/// A picture: a file, or its bytes. JPEG, PNG, WebP or GIF.
struct Image {
  std::string file = {};
  std::vector<std::byte> bytes = {};
  int tokens = 0;  // 70, 140, 280, 560 or 1120; 0 = what the model was published with
};

/// One message of a conversation.
struct Message {
  std::string role;                // "system", "user", "assistant" or "tool"
  std::string content;             // a control token spelled out in it stays text
  std::vector<Image> images = {};  // of a user, shown before the text; decoded when the message is sent
};

enum class Finish {
  kNone,  // not ended yet
  kStop,  // the model ended its reply, or a stop text came
  kLength,
  kCancelled,
  kError,
};

/// What a model writes, in the order it writes it.
struct Event {
  enum class Kind { kReasoning, kText, kToolCall, kEnd };
  Kind kind = Kind::kText;
  std::string text = {};          // of reasoning and text: whole characters, never half of one
  std::string name = {};          // of a tool call
  std::string arguments = {};     // of a tool call: a JSON object
  Finish finish = Finish::kNone;  // of the end
};

/// What a reply cost. Seconds by a steady clock.
struct Statistics {
  int prompt_tokens = 0, output_tokens = 0, reasoning_tokens = 0, cached_tokens = 0;
  double queued_seconds = 0, first_token_seconds = 0, prompt_seconds = 0, decode_seconds = 0;
  int passes = 0;                 // of the model, over which the reply was decoded
  int drafted = 0, accepted = 0;  // guesses of the drafters, and those that were right
};

/// A whole reply.
struct Reply {
  std::string text, reasoning;
  std::vector<Event> tool_calls;
  std::vector<int> tokens;
  Finish finish = Finish::kNone;
  std::uint64_t seed = 0;
  Statistics statistics;
};

/// A reply while it is written: a range of events that ends with the reply. To be used by one thread at a time. When
/// it is destroyed before that, the request is cancelled.
class Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  /// The next event; waits for it. Nothing after the end. Throws the Error that ended the request, if one did.
  std::optional<Event> next();
  /// Ends the request; what was written until then still comes. From any thread.
  void cancel();
  /// All of it so far; whole once next() has returned nothing.
  const Reply& reply() const;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Event;
    using difference_type = std::ptrdiff_t;
    using pointer = const Event*;
    using reference = const Event&;

    Iterator() = default;
    explicit Iterator(Stream* stream) : stream_(stream) { ++*this; }
    const Event& operator*() const { return *event_; }
    const Event* operator->() const { return &*event_; }
    Iterator& operator++() {
      event_ = stream_->next();
      if (!event_) stream_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return stream_ == other.stream_; }

   private:
    Stream* stream_ = nullptr;
    std::optional<Event> event_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return {}; }

 private:
  friend class Model;
  struct State;
  explicit Stream(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// A model, first opened, then loaded. A handle: movable, not copyable. Destroying it cancels what runs.
class Model {
 public:
  /// `name`: a checkpoint folder, or a name in the Hugging Face cache. Reads headers only, which is quick.
  static Model open(const std::string& name, const OpenOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  /// Reads the weights and gets ready. Once.
  Model& load(const LoadOptions& options = {}) &;
  Model&& load(const LoadOptions& options = {}) &&;

  /// A reply to one message.
  Stream generate(std::string_view message, const GenerateOptions& options = {});
  /// A reply to a conversation.
  Stream chat(const std::vector<Message>& messages, const GenerateOptions& options = {});
  /// The same from a JSON list of messages in OpenAI's form, calls of tools and their answers among them. Templates
  /// see it as it is written, the order of keys and 2.0 beside 2 included.
  Stream chat_json(std::string_view messages, const GenerateOptions& options = {});
  /// Goes on from a text as it stands, without chat turns. Control tokens spelled out in it are control tokens.
  Stream complete(std::string_view text, const GenerateOptions& options = {});
  /// The same with a callback, on the calling thread; it ends the reply by returning false.
  Reply generate(std::string_view message, const GenerateOptions& options,
                 const std::function<bool(const Event&)>& on_event);

  std::vector<int> tokenize(std::string_view text) const;
  std::string detokenize(const std::vector<int>& tokens) const;

  /// Longest prompt and reply together.
  int context() const;
  /// Effective settings, for people: device, drafters.
  std::string description() const;

  struct Impl;

 private:
  explicit Model(std::shared_ptr<Impl> impl);
  Stream start(const session::Prompt& prompt, session::Generation generation);
  std::shared_ptr<Impl> impl_;
};

/// "0.1.0"
std::string_view version();

}  // namespace slip
