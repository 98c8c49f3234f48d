// Draft networks on a backend: an Assistant and a BlockDrafter, loaded for one target by the target's own
// backend, whose threads, embedding and caches they use. Like the target, they give a row the same bits
// whatever else is in the batch; unlike the target's, their bits never reach the output.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backend/batch.h"
#include "kv/cache.h"
#include "model/assistant.h"
#include "model/dflash.h"

namespace slip::backend {

/// One step of one sequence's draft.
struct AssistantRow {
  int token = 0;                  // whose successor is guessed
  const float* hidden = nullptr;  // [backbone hidden]; may point into the Output of the step before
  int position = 0;               // of the query's rotary embedding
  int keys = 0;                   // it sees the target's positions [0, keys), sliding layers the last of them
  const kv::Cache* cache = nullptr;  // of the target
  int best = 0;                      // tokens that are enough, see Row
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
  virtual size_t streamed_bytes() const = 0;
  virtual size_t resident_bytes() const = 0;
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
  int rows = 0;  // 2 .. config().block
  int best = 0;  // tokens that are enough of each row, see Row
};

class BlockDrafter {
 public:
  virtual ~BlockDrafter() = default;
  virtual const model::DflashConfig& config() const = 0;
  /// The most rows of all blocks of one run(), and of one extend().
  virtual int max_rows() const = 0;
  virtual const kv::Layout& kv_layout() const = 0;
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
