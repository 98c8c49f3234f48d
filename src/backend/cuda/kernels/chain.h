// A chain of draft steps in one launch: what goes from one step to the next without the host. A phase between
// them (next_draft.h) draws a token of each row's best and embeds it beside the hidden state that the step
// has left.
#pragma once

#include <cstdint>

#include "backend/cuda/packed_matrix.h"
#include "base/scores.h"

namespace slip::backend::cuda {

inline constexpr int kMostChain = 8;  // steps of one launch

/// How a row draws: a DrawRule (backend/drafting.h) with everything worked out that needs no logits.
struct alignas(16) Drawing {
  static constexpr int kMostSuppressed = 8;
  double inverse_temperature;
  double lowest_x;  // of min_p
  double quantum;   // that weights are rounded by (sample/weight.h)
  uint64_t seed;
  int64_t position;  // of the first step's guess
  float scale, top_p;
  int top_k, suppressed_count;  // greedy: top_k = 1
  int suppressed[kMostSuppressed];
};

/// From the best tokens of a step to the inputs of the next one.
struct NextDraftJob {
  int rows = 0;
  int turn = 0;                       // of the chain, which step has been made
  const Drawing* drawings = nullptr;  // [row]
  BestTokens* best = nullptr;         // [row]; `next` is filled in
  PackedMatrix table;                 // an embedding, which is a head as well and packed as such
  float scale = 1;
  float* out = nullptr;  // [row][stride]
  int64_t stride = 0;
  static constexpr int kMostPlaceholders = 8;
  int placeholders[kMostPlaceholders] = {};  // tokens that are embedded as `pad`
  int placeholder_count = 0, pad = 0;
};

}  // namespace slip::backend::cuda
