// The mixture of experts. Every row names its experts; the names are sorted so that each expert's weights are
// read once per batch, for all rows that chose it; results go to a place of their own per (row, slot) and are
// added in slot order.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/executor.h"

namespace slip::backend::cpu {

/// The best experts of one row, ties to the lower index, and their shares: softmax over the chosen, times a
/// learned scale.
void Executor::route(int layer, int row) {
  const float* scores = router_scores_.row(row);
  const int k = config_.experts_per_token;
  Choice* chosen = &choices_[static_cast<size_t>(row * k)];
  float* shares = &shares_[static_cast<size_t>(row * k)];
  int count = 0;
  for (int e = 0; e < config_.experts; ++e) {
    if (count == k && scores[e] <= scores[chosen[k - 1].expert]) continue;
    int at = count < k ? count++ : k - 1;
    for (; at > 0 && scores[e] > scores[chosen[at - 1].expert]; --at)
      chosen[at].expert = chosen[at - 1].expert;
    chosen[at].expert = e;
  }
  float total = 0;
  for (int slot = 0; slot < k; ++slot) {
    chosen[slot].row = row;
    chosen[slot].slot = slot;
    total += shares[slot] = std::exp(scores[chosen[slot].expert] - scores[chosen[0].expert]);
  }
  for (int slot = 0; slot < k; ++slot) {
    shares[slot] = shares[slot] / total *
                   layer_weights(layer).moe.per_expert_scale[static_cast<size_t>(chosen[slot].expert)];
  }
}

void Executor::sort_choices() {
  choice_count_ = row_count_ * config_.experts_per_token;
  std::fill(expert_counts_.begin(), expert_counts_.end(), 0);
  for (int i = 0; i < choice_count_; ++i)
    ++expert_counts_[static_cast<size_t>(choices_[static_cast<size_t>(i)].expert) + 1];
  span_count_ = 0;
  for (int e = 0; e < config_.experts; ++e) {
    const int begin = expert_counts_[static_cast<size_t>(e)];
    int& end = expert_counts_[static_cast<size_t>(e) + 1];
    if (end > 0) spans_[static_cast<size_t>(span_count_++)] = {e, begin, begin + end};
    end += begin;
  }
  for (int i = 0; i < choice_count_; ++i) {
    const Choice& choice = choices_[static_cast<size_t>(i)];
    const int place = choice.row * config_.experts_per_token + choice.slot;
    const auto to = static_cast<size_t>(expert_counts_[static_cast<size_t>(choice.expert)]++);
    sorted_[to] = choice;
    expert_columns_[to] = expert_input_.column(choice.row, expert_activated_.row(place));
    expert_down_columns_[to] = expert_activated_.column(place, expert_out_.row(place));
  }
}

void Executor::experts(int layer, int thread) {
  const auto& packed = packed_layer(layer).experts;
  const auto columns_of = [&](const std::vector<Column>& columns, const ExpertSpan& span) {
    return std::span<const Column>(&columns[static_cast<size_t>(span.begin)],
                                   static_cast<size_t>(span.end - span.begin));
  };
  // All experts have one shape, so a task is (expert, chunk).
  const int64_t gate_piece = gated_panels_per_chunk(packed[0].gate), gate_panels = packed[0].gate.panels;
  const int64_t gate_pieces = (gate_panels + gate_piece - 1) / gate_piece;
  parallel(thread, span_count_ * gate_pieces, [&](int64_t task) {
    const ExpertSpan& span = spans_[static_cast<size_t>(task / gate_pieces)];
    const PackedExpert& expert = packed[static_cast<size_t>(span.expert)];
    const int64_t begin = task % gate_pieces * gate_piece, end = std::min(gate_panels, begin + gate_piece);
    matmul_gated(expert.gate, expert.up, config_.activation, columns_of(expert_columns_, span), begin, end);
    for (int i = span.begin; i < span.end; ++i) {
      const Choice& choice = sorted_[static_cast<size_t>(i)];
      expert_activated_.finish(choice.row * config_.experts_per_token + choice.slot, begin * kPanelRows,
                               end * kPanelRows);
    }
  });
  const int64_t down_piece = panels_per_chunk(packed[0].down), down_panels = packed[0].down.panels;
  const int64_t down_pieces = (down_panels + down_piece - 1) / down_piece;
  parallel(thread, span_count_ * down_pieces, [&](int64_t task) {
    const ExpertSpan& span = spans_[static_cast<size_t>(task / down_pieces)];
    const int64_t begin = task % down_pieces * down_piece;
    matmul(packed[static_cast<size_t>(span.expert)].down, columns_of(expert_down_columns_, span), begin,
           std::min(down_panels, begin + down_piece));
  });
}

/// projected = norm(dense) + norm(sum over slots of share * expert)
void Executor::add_experts(int layer, int row) const {
  const model::MoeWeights& weights = layer_weights(layer).moe;
  const int k = config_.experts_per_token;
  float* dense = projected_.row(row);
  norm_row(dense, weights.post_norm_dense.data(), config_.hidden, config_.norm_epsilon, dense);
  float* sum = expert_input_.row(row);  // its work is done
  std::memset(sum, 0, static_cast<size_t>(config_.hidden) * sizeof(float));
  for (int slot = 0; slot < k; ++slot) {
    const int place = row * k + slot;
    add_scaled_row(expert_out_.row(place), shares_[static_cast<size_t>(place)], config_.hidden, sum);
  }
  add_norm_row(sum, weights.post_norm.data(), config_.hidden, config_.norm_epsilon, dense);
}

}  // namespace slip::backend::cpu
