// Decoder: what a program decodes pictures with. Every item is decoded in a process of its own (worker.h), at
// most so many at a time as the machine has cores; the others wait. A call blocks its caller only, may be
// made from any thread, and ends early when asked to stop.
//
// Why a process: decoders of pictures are large, old and written in C, and the bytes come from strangers. The
// process that they may take over holds nothing and can do nothing (sandbox.h).
// Cost: some 5 ms to start the worker, one copy of the file, one of the resized pixels.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>

#include "media/kind.h"
#include "media/limits.h"
#include "media/patches.h"
#include "media/refused.h"
#include "media/worker_program.h"

namespace slip::media {

struct DecoderOptions {
  WorkerCommand worker{};  // installed_worker() unless one is named
  Limits limits{};
  int at_once = 0;                                // workers running at a time; 0: as many as cores
  std::chrono::seconds cpu_limit{20};             // of one item: what it may cost
  std::chrono::milliseconds time_limit{120'000};  // the same on a busy machine, from the start of its worker
};

struct ImageOptions {
  int budget = kDefaultBudget;  // one of kBudgets, or kAutoBudget
  PatchSide side = PatchSide::kPatch;
};

class Decoder {
 public:
  explicit Decoder(DecoderOptions options = {});

  /// `name` stands for the item in errors: the file as it was given, or where in a request it stood. Throws
  /// Refused.
  ImagePatches decode(Bytes bytes, const std::string& name, const ImageOptions& options = {},
                      std::stop_token stop = {});
  /// Reads a file or a pipe first.
  ImagePatches decode_file(const std::string& path, const ImageOptions& options = {},
                           std::stop_token stop = {});

  const Limits& limits() const { return options_.limits; }

 private:
  class Turn;  // the right to run one worker

  /// Fills the patches and returns no fault, or says what went wrong.
  Refusal run_worker_on(Bytes bytes, const ImageOptions& options, std::stop_token stop,
                        ImagePatches& patches);

  DecoderOptions options_;
  std::mutex mutex_;
  std::condition_variable_any freed_;
  int running_ = 0;
};

}  // namespace slip::media
