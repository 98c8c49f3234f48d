// Chains of an assistant's steps in one launch (kernels/chain.h). The list of a width has kMostChain steps,
// and a chain starts as many of them as it needs. A step leaves its hidden states in the inputs of the next
// one, where the host can also find them.
#include <algorithm>
#include <cstring>

#include "backend/cuda/executor.h"
#include "base/check.h"

namespace slip::backend::cuda {

static_assert(sizeof(Drawing) * kMaxRows % 16 == 0, "the inputs lie right behind");

/// What a step leaves.
Executor::Field Executor::chain_hiddens(int step) const {
  Field next = chain_input(step + 1);
  next.data += network_.assistant->backbone_hidden;
  return next;
}

/// From the step before to the one at hand.
void Executor::next_draft() {
  const model::Config& embed = *network_.embed_config;
  const Field to = chain_input(turn_);
  NextDraftJob job{.rows = rows_,
                   .turn = turn_ - 1,
                   .drawings = reinterpret_cast<Drawing*>(input(rows_).data) - kMaxRows,
                   .best = chain_best_ + int64_t{turn_ - 1} * rows_,
                   .table = *network_.table,
                   .scale = embed.embed_scale,
                   .out = to.data,
                   .stride = to.stride,
                   .placeholder_count = static_cast<int>(embed.placeholder_ids.size()),
                   .pad = embed.pad_id};
  SLIP_CHECK(job.placeholder_count <= NextDraftJob::kMostPlaceholders);
  std::copy(embed.placeholder_ids.begin(), embed.placeholder_ids.end(), job.placeholders);
  building_->add(StepKind::kNextDraft, job, mark_);
}

void Executor::run_chain(const model::Program& program, std::span<const InputRow> rows,
                         std::span<const kv::Cache* const> caches, std::span<const Drawing> drawings,
                         int steps) {
  const int count = static_cast<int>(rows.size());
  SLIP_CHECK(chains() && steps >= 1 && steps <= kMostChain && drawings.size() == rows.size());
  SLIP_CHECK(count <= std::min(max_rows_, kMaxRows));
  send(program, rows, caches, 0, drawings);
  list_for(program, count, true, kMostChain).start(gpu_, step_, false, kSkipNothing, steps);
  chain_rows_ = count;
  gpu_.to_host(host_best_.data(), reinterpret_cast<const std::byte*>(chain_best_),
               static_cast<size_t>(steps * count) * sizeof(BestTokens));
  gpu_.finish();
}

const BestTokens* Executor::chain_best(int step) const {
  return reinterpret_cast<const BestTokens*>(host_best_.data()) + int64_t{step} * chain_rows_;
}

const float* Executor::chain_hidden(int step, int row) {
  const Field from = chain_hiddens(step);
  const auto cols = static_cast<size_t>(network_.assistant->backbone_hidden);
  gpu_.to_host(host_hidden_.data(), reinterpret_cast<const std::byte*>(from.data + row * from.stride),
               cols * sizeof(float));
  gpu_.finish();
  float* to = &out_hidden_[static_cast<size_t>(row) * cols];
  std::memcpy(to, host_hidden_.data(), cols * sizeof(float));
  return to;
}

}  // namespace slip::backend::cuda
