// Stats: what one request cost, and Load: what the engine has to do. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kv/prefix_cache.h"
#include "speculate/statistics.h"

namespace slip::engine {

/// Seconds by the steady clock. The stop id is not output: it is no part of the reply.
struct Stats {
  int prompt_tokens = 0;
  int output_tokens = 0;
  int cached_tokens = 0;                            // of the prompt, found in pages that were there already
  int matched_tokens = 0;                           // of the prompt, as far as anybody's prompt began alike
  kv::MatchEnd match_end = kv::MatchEnd::kNothing;  // why it was no more
  int media_tokens = 0;                             // of the prompt, soft rows
  int reasoning_tokens = 0;                         // of the output, those that landed in reasoning
  int preempted = 0;                                // how often it lost its pages and came back
  double queued_s = 0;                              // from submit() to admission
  double first_token_s = 0;                         // from submit() to the first token: what a person waits
  double prompt_s = 0;                              // from admission to the first token
  double decode_s = 0;                              // from the first token to the last
  int decoded_tokens = 0;  // that decode_s went to: all but the first, and the stop id
  speculate::Statistics speculation;
};

/// How large the steps were: tokens read and written in each, counted into classes.
struct StepSizes {
  /// Class i takes up to kMost[i] tokens, the last one more.
  static constexpr std::array<int, 13> kMost{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  std::array<uint64_t, kMost.size() + 1> steps{};
  uint64_t tokens = 0;  // of all of them

  void add(int step_tokens);
};

/// A snapshot that any thread may read at any moment.
struct Load {
  int running = 0;
  int waiting = 0;
  int sequences = 0;       // that may run together
  size_t cache_bytes = 0;  // set aside for caches
  size_t free_bytes = 0;   // of them
  // Tokens per second, over the last seconds in which there was such work; 0 = not measured yet.
  double prompt_rate = 0;
  double decode_rate = 0;
  uint64_t steps = 0;    // finished since the start; one that hangs leaves it as it is
  StepSizes sizes = {};  // of those that ran the model
  // Since the start.
  uint64_t preempted = 0;
  uint64_t prefix_asked = 0;     // tokens of prompts
  uint64_t prefix_matched = 0;   // of them, as far as any began alike
  uint64_t prefix_restored = 0;  // of them, taken from pages
  size_t prefix_bytes = 0;       // of pages that are kept for later prompts alone
};

}  // namespace slip::engine
