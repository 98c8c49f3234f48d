// InputRows: the rows of a step as an executor takes them, with the keys each of them sees. The model, an
// assistant and a block drafter ask in words of their own (batch.h, drafting.h); this is the one place that
// translates them, for every device. Allocates at construction alone.
#pragma once

#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/drafting.h"
#include "model/program.h"

namespace slip::backend {

/// Keys a row sees, by position: [first, end).
struct KeySpan {
  int first = 0;
  int end = 0;
};

struct InputRow {
  int token = 0;
  const SoftRows* soft = nullptr;  // row `soft_row` replaces the token's embedding, see Row
  int soft_row = 0;
  const float* input = nullptr;  // hidden state of a draft step, taps of a context row
  int position = 0;
  int cache = 0;  // index into the caches; rows of one cache stand together
  bool output = true;
  int candidates = 0;  // see Row
  KeySpan sliding = {}, full = {};

  /// [hidden] floats in the host's memory in place of the token's embedding; null = the token's.
  const float* embedding() const { return soft == nullptr ? nullptr : soft->host_row(soft_row); }
};

class InputRows {
 public:
  explicit InputRows(int most) : rows_(static_cast<size_t>(most)), caches_(rows_.size()) {}

  /// Each replaces what was taken before.
  void set_rows(const Batch& batch, int window);
  /// `span`: keys a sliding layer sees.
  void set_rows(std::span<const AssistantRow> rows, int span);
  /// Stages the rows in their caches. `inputs`: floats of a row's taps.
  void set_rows(std::span<const ContextRows> contexts, int inputs);
  void set_rows(std::span<const Block> blocks, const model::DflashConfig& config);

  std::span<const InputRow> rows() const { return {rows_.data(), count_}; }
  std::span<const kv::Cache* const> caches() const { return {caches_.data(), cache_count_}; }

 private:
  void clear(size_t caches);
  InputRow& add();

  std::vector<InputRow> rows_;
  std::vector<const kv::Cache*> caches_;
  size_t count_ = 0, cache_count_ = 0;
};

}  // namespace slip::backend
