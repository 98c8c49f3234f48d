// Batch: the rows of one step. A decode row, a verify window, a prompt chunk and any mix of them from any
// number of sequences are the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/soft_rows.h"
#include "base/scores.h"
#include "kv/cache.h"

namespace slip::backend {

struct Row {
  int token = 0;
  int position = 0;
  int sequence = 0;    // index into Batch::sequences
  bool output = true;  // wants scores; rows without stop at the last layer that stores KV
  // Of its scores, so many of the best tokens suffice, at most kMostCandidates; 0 = it wants all logits.
  int candidates = 0;
  // Row `soft_row` of these replaces the (scaled) token embedding, at image and audio positions.
  const SoftRows* soft = nullptr;
  int soft_row = 0;
  // End of the span in which rows see each other in both directions on sliding layers: it sees keys up to there,
  // and all rows of the span come in the same step. 0 = causal, it sees up to itself.
  int span_end = 0;
};

/// Rows of one sequence stand together in ascending, consecutive positions, starting at its cache's length().
/// The caller has staged as many positions in each cache.
struct Batch {
  std::span<const Row> rows;
  std::span<kv::Cache* const> sequences;
  bool hidden = true;  // whether anybody reads Output::hidden, which a GPU would have to send
};

/// Results for the rows that wanted output, in the order of the batch. Valid until the next run().
struct Output {
  int rows = 0;
  // [rows, vocab], soft-capped; anything in rows that have a list instead. Null if all have.
  const float* logits = nullptr;
  // [rows], for rows that asked for the best tokens alone; null where a backend gives logits anyway.
  const BestTokens* best = nullptr;
  const float* hidden = nullptr;  // [rows, hidden], after the final norm; may be null if nobody wanted it
  // [rows of the batch, taps * hidden]: for every row, whether it wanted output or not, what the layers of
  // set_taps() put out, side by side. Null without taps.
  const float* taps = nullptr;

  Scores scores(int row, int vocab) const {
    if (best != nullptr && best[row].wanted > 0) return {.logits = {}, .best = best + row};
    return {.logits = {logits + static_cast<ptrdiff_t>(row) * vocab, static_cast<size_t>(vocab)}};
  }
};

}  // namespace slip::backend
