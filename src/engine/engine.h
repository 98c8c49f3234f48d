// Engine: runs requests on a backend, any number of them together, each as if it were alone. One step is a
// round (round.h): one pass of the model over decode rows, guesses and prompt chunks of all sequences.
//
// Threads: one thread calls step(). submit() and cancel() may come from any thread, also from a sink; they
// leave a note that the next step reads first, so nothing is locked while a step works.
//
// Memory: caches grow page by page. A request is admitted, in order of arrival, when there are pages for what it has
// to read. Where pages run out later, the youngest sequence is put aside and waits in front of all others, to read
// its tokens again; its output is the same. Pages outlive their sequence in a prefix cache (kv/prefix_cache.h): a prompt
// that begins like an earlier one begins with its pages, and one that begins like a prompt that is being read waits
// for those. A step that admits, ends and puts aside none allocates nothing
// but the records of what is kept, one for 64 tokens.
//
// Errors: a bad request is refused by submit(). What goes wrong later ends the requests it concerns with
// kError. A drafter that fails ends nothing; Speculator::failures() has its sentence.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "engine/cache_room.h"
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
  bool prefix_cache = true;         // pages are kept for later prompts that begin alike
  size_t cache_bytes = ~size_t{0};  // for the pages of all caches, of sequences and of prefixes
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
  int longest() const { return std::min(context_, fitting_); }
  /// What there is to do, as of the last step; from any thread.
  Load load() const;
  /// Forgets the pages kept for later prompts. Between steps.
  void forget_prefixes() { prefixes_.clear(); }
  /// Does what a lack of pages would do: the youngest sequence gives its pages back and waits. Between steps.
  void put_aside_youngest();
  /// Ends all requests, running, waiting and those submitted meanwhile. Between steps.
  void end_all(FinishReason reason, std::string_view error = {});
  // For the thread that calls step().
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }

 private:
  void check(const Request& request) const;
  void check_media(const Request& request) const;
  void read_notes();
  void publish_load();
  /// False where its pictures are not encoded yet, or went wrong: then it has ended.
  static bool can_begin(Sequence& sequence);
  void admit();
  bool has_room_for(const Sequence& sequence);
  size_t still_needed(const Sequence& sequence);
  void begin(Sequence& sequence);
  bool prefix_is_under_way(const Sequence& sequence) const;
  void restore_prefix(Sequence& sequence);
  void keep_prefixes();
  void take_back();
  void retire();
  bool notes_left();

  backend::Backend& backend_;
  kv::PagePool& pages_;
  const int context_;
  const int vocab_;
  const Scheduler scheduler_;
  speculate::Speculator* const speculator_;
  const CacheRoom room_;
  const bool reuses_prefixes_;
  kv::PrefixCache prefixes_;
  const int fitting_;  // tokens of a sequence that has all pages for itself
  Round round_;

  std::mutex mutex_;  // guards the notes
  std::vector<std::unique_ptr<Sequence>> submitted_;
  std::vector<uint64_t> cancelled_;
  std::atomic<uint64_t> next_id_{1};

  // Both in order of arrival.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;

  LoadMeter meter_;
  mutable std::mutex load_mutex_;
  Load load_;

  // Of the step at hand.
  std::vector<uint64_t> cancels_;
  std::vector<kv::Cache*> draft_caches_, all_caches_;
  uint64_t preempted_ = 0;
};

}  // namespace slip::engine
