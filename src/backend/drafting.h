// Draft networks on a backend: an Assistant and a BlockDrafter, loaded for one target by the target's own
// backend, whose threads, embedding and caches they use. Like the target, they give a row the same bits
// whatever else is in the batch; unlike the target's, their bits never reach the output.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/batch.h"
#include "kv/cache.h"
#include "model/assistant.h"
#include "model/dflash.h"

namespace slip::backend {

/// How a sequence draws its guesses: the options of sample/sampler.h as far as a device follows them by
/// itself.
struct DrawRule {
  static constexpr size_t kMostSuppressed = 8;
  float temperature = 0;  // 0 = greedy
  int top_k = 0;
  float top_p = 1, min_p = 0;
  uint64_t seed = 0;
  int64_t position = 0;  // of the first guess
  std::array<int, kMostSuppressed> suppressed = {};
  int suppressed_count = 0;
};

/// One step of one sequence's draft.
struct AssistantRow {
  int token = 0;                  // whose successor is guessed
  const float* hidden = nullptr;  // [backbone hidden]; may point into the Output of the step before
  int position = 0;               // of the query's rotary embedding
  int keys = 0;                   // it sees the target's positions [0, keys), sliding layers the last of them
  const kv::Cache* cache = nullptr;  // of the target
  int candidates = 0;                // see Row
  const DrawRule* draw = nullptr;    // for chain(); null = only the caller can draw
};

class Assistant {
 public:
  virtual ~Assistant() = default;
  virtual const model::AssistantConfig& config() const = 0;
  /// The most rows one step() takes.
  virtual int max_rows() const = 0;
  /// logits [rows, vocab], -infinity for the tokens a centroid head did not score; hidden [rows, backbone
  /// hidden], the input of the next step.
  virtual Output step(std::span<const AssistantRow> rows) = 0;
  /// Up to `depth` steps one after another, without asking the caller in between: each goes on from the
  /// hidden state that the one before left, and from the token that the row's rule draws from its scores
  /// (BestTokens::next). The caller, who draws for himself, uses the steps up to the first whose token is not
  /// his; what he then does not use cost time and nothing else. At least one step; exactly one where a
  /// backend, or a row, has no way to go on. Without hidden states: see hidden_after(). Valid until the next
  /// step() or chain().
  virtual std::span<const Output> chain(std::span<const AssistantRow> rows, int depth) {
    (void)depth;
    only_ = step(rows);
    return {&only_, 1};
  }
  /// [backbone hidden] that a step of the last chain() left of a row.
  virtual const float* hidden_after(size_t step, size_t row) {
    (void)step;
    return only_.hidden + row * static_cast<size_t>(config().backbone_hidden);
  }
  virtual size_t streamed_bytes() const = 0;
  virtual size_t resident_bytes() const = 0;

 private:
  Output only_;  // of a chain that is a step
};

/// Rows of the target's last pass whose taps join a sequence's context, at its positions length(), ...
struct ContextRows {
  kv::Cache* cache = nullptr;   // of the drafter
  const float* taps = nullptr;  // [count, taps * hidden], as in Output
  int count = 0;
};

/// One block: the anchor and rows - 1 masks after the context of a sequence.
struct Block {
  kv::Cache* cache = nullptr;
  int anchor = 0;
  int rows = 0;        // 2 .. config().block
  int candidates = 0;  // of each row, see Row
};

class BlockDrafter {
 public:
  virtual ~BlockDrafter() = default;
  virtual const model::DflashConfig& config() const = 0;
  /// The most rows of all blocks of one run(), and of one extend().
  virtual int max_rows() const = 0;
  virtual const kv::Layout& kv_layout() const = 0;
  /// An empty cache, of pages of the target's pool.
  virtual std::unique_ptr<kv::Cache> new_cache() = 0;
  /// Stores and commits context.
  virtual void extend(std::span<const ContextRows> rows) = 0;
  /// Logits of every row after the anchor, block by block: [sum of (rows - 1), vocab]. Leaves the caches as
  /// they were. No hidden.
  virtual Output run(std::span<const Block> blocks) = 0;
  virtual size_t streamed_bytes() const = 0;
  virtual size_t resident_bytes() const = 0;
};

struct DraftOptions {
  int max_rows = 64;  // of one step or block pass
  // Keys a sliding layer of an assistant sees beyond the window: 0, or 1 to compare with transformers, which
  // keeps one more.
  int extra_keys = 0;
};

}  // namespace slip::backend
