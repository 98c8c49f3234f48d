#include "backend/input_rows.h"

#include <algorithm>

#include "base/check.h"

namespace slip::backend {

void InputRows::clear(size_t caches) {
  SLIP_CHECK(caches <= caches_.size());
  count_ = 0;
  cache_count_ = caches;
}

InputRow& InputRows::add() {
  SLIP_CHECK(count_ < rows_.size());
  return rows_[count_++];
}

void InputRows::set_rows(const Batch& batch, int window) {
  clear(batch.sequences.size());
  std::copy(batch.sequences.begin(), batch.sequences.end(), caches_.begin());
  for (const Row& row : batch.rows) {
    add() = {.token = row.token,
             .soft = row.soft,
             .soft_row = row.soft_row,
             .position = row.position,
             .cache = row.sequence,
             .output = row.output,
             .candidates = row.candidates,
             .sliding = {std::max(0, row.position - window + 1), std::max(row.position + 1, row.span_end)},
             .full = {0, row.position + 1}};
  }
}

void InputRows::set_rows(std::span<const AssistantRow> rows, int span) {
  clear(rows.size());
  for (const AssistantRow& row : rows) {
    SLIP_CHECK(row.keys >= 1 && row.keys <= row.cache->length());
    const auto cache = static_cast<int>(count_);
    caches_[count_] = row.cache;
    add() = {.token = row.token,
             .input = row.hidden,
             .position = row.position,
             .cache = cache,
             .candidates = row.candidates,
             .sliding = {std::max(0, row.keys - span), row.keys},
             .full = {0, row.keys}};
  }
}

void InputRows::set_rows(std::span<const ContextRows> contexts, int inputs) {
  clear(contexts.size());
  for (size_t s = 0; s < contexts.size(); ++s) {
    const ContextRows& context = contexts[s];
    caches_[s] = context.cache;
    context.cache->stage(context.count);
    for (int i = 0; i < context.count; ++i) {
      add() = {.input = context.taps + int64_t{i} * inputs,
               .position = context.cache->length() + i,
               .cache = static_cast<int>(s),
               .output = false};
    }
  }
}

void InputRows::set_rows(std::span<const Block> blocks, const model::DflashConfig& config) {
  clear(blocks.size());
  for (size_t s = 0; s < blocks.size(); ++s) {
    const Block& block = blocks[s];
    SLIP_CHECK(block.rows >= 2 && block.rows <= config.block);
    caches_[s] = block.cache;
    block.cache->stage(block.rows);
    const int start = block.cache->length();
    for (int i = 0; i < block.rows; ++i) {
      const int position = start + i;
      add() = {.token = i == 0 ? block.anchor : config.mask_id,
               .position = position,
               .cache = static_cast<int>(s),
               .output = i > 0,
               .candidates = block.candidates,
               .sliding = {std::max(0, position - config.text.window + 1), position + 1},
               .full = {0, start + block.rows}};
    }
  }
}

}  // namespace slip::backend
