// Engine: runs requests on a backend, any number of them together, each as if it were alone. One step is a
// round (round.h): one pass of the model over decode rows, guesses and prompt chunks of all sequences.
//
// Threads: one thread calls step(). submit() and cancel() may come from any thread, also from a sink; they
// leave a note that the next step reads first, so nothing is locked while a step works. Memory is taken when
// a sequence is admitted and given back when it ends; a step that admits and ends none allocates nothing.
//
// Errors: a bad request is refused by submit(). What goes wrong later ends the requests it concerns with
// kError. A drafter that fails ends nothing; Speculator::failures() has its sentence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "engine/load_meter.h"
#include "engine/request.h"
#include "engine/round.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/stats.h"

namespace slip::engine {

struct EngineOptions {
  int context = 0;                  // most tokens of a sequence; 0 = what the model was made for
  int sequences = 64;               // run together; also bounded by the backend's rows
  int step_rows = 0;                // most rows of a step; 0 = what the backend takes
  int draft_sequences = 0;          // with more of them decoding, nobody guesses; 0 = no such bound
  int mixed_prompt_rows = 512;      // of prompts in a step that also decodes, which is bounded by time too
  size_t cache_bytes = ~size_t{0};  // for the caches of all running sequences
};

class Engine {
 public:
  /// Backend and speculator must outlive the engine. A speculator serves one engine at a time. Throws
  /// Error(kUsage) on options that make no sense.
  explicit Engine(backend::Backend& backend, const EngineOptions& options = {},
                  speculate::Speculator* speculator = nullptr);
  /// Requests that have not ended get no more deltas.
  ~Engine();

  /// Checks the request, queues it and returns its id. Throws Error(kUsage) or, if its cache could never fit,
  /// Error(kOutOfMemory); the sink is not called then.
  uint64_t submit(Request request);
  /// Ends the request before the next step, with kCancelled. Without effect if it has ended.
  void cancel(uint64_t id);

  /// One step over all running sequences. True while there is more to do.
  bool step();
  void run_until_done() {
    while (step()) {
    }
  }

  int context() const { return context_; }
  /// The longest sequence that can ever run, prompt and answer together: the context, or less where its caches would not
  /// fit. From any thread.
  int longest() const;
  /// What there is to do, as of the last step; from any thread.
  Load load() const;
  /// Ends all requests, running, waiting and those submitted meanwhile. Between steps.
  void end_all(FinishReason reason, std::string_view error = {});
  // For the thread that calls step().
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  void check(const Request& request) const;
  void check_media(const Request& request) const;
  size_t cache_bytes(int most_tokens) const;
  void read_notes();
  void publish_load();
  void admit();
  void retire();
  bool notes_left();

  backend::Backend& backend_;
  const kv::Layout& layout_;
  const int context_;
  const int vocab_;
  Scheduler scheduler_;
  speculate::Speculator* const speculator_;
  Round round_;

  std::mutex mutex_;  // guards the notes
  std::vector<std::unique_ptr<Sequence>> submitted_;
  std::vector<uint64_t> cancelled_;
  std::atomic<uint64_t> next_id_{1};

  std::deque<std::unique_ptr<Sequence>> waiting_;   // in order of arrival
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission

  LoadMeter meter_;
  mutable std::mutex load_mutex_;
  Load load_;

  std::vector<uint64_t> cancels_;  // of the step at hand
};

}  // namespace slip::engine
