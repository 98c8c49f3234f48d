// The entries of a mixture's phases: the experts that rows choose, beside the dense branch.
#include <algorithm>
#include <cmath>

#include "backend/cuda/executor.h"

namespace slip::backend::cuda {
namespace {

/// Experts that `rows` rows of 1-in-`experts` choices read, if they choose independently.
int expected_experts(int rows, int experts, int chosen) {
  const double miss = std::pow(1.0 - static_cast<double>(chosen) / experts, rows);
  return std::max(1, static_cast<int>(experts * (1 - miss) + 0.5));
}

}  // namespace

/// Whether the blocks that multiply with a single row's experts also add up what they give, in bunches.
bool Executor::bunches(const PackedMatrix& expert_down) const {
  const int chosen = config_.experts_per_token;
  return rows_ == 1 && chosen % kBunch == 0 && expert_down.parts <= kWarps / kBunch &&
         kBunch * expert_activated_.stride <= kMostTurns * kTurnCols &&
         chosen / kBunch <= gpu_.info().processors && config_.hidden <= kMixTurns * kTurnCols &&
         config_.per_layer_dim == 0;
}

/// Gate and up of the experts chosen, beside the down of the dense branch: alone they have too few groups of
/// tiles for all blocks; then their own down. To add both up is left to whoever reads the sum.
Mixture Executor::experts(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const model::MoeWeights& weights = layer_weights(layer).moe;
  const int chosen = config_.experts_per_token;
  const int listed = expected_experts(rows_, config_.experts, chosen);

  const RouteJob route{.experts = config_.experts,
                       .chosen = chosen,
                       .scores = router_scores_.data,
                       .stride = router_scores_.stride,
                       .expert_scale = device_.vector(weights.per_expert_scale),
                       .shares = shares_};

  Job first = new_job();
  first.route = route;
  add(first, matrices.expert_gate_up, take_stream(), expert_activated_);
  first.segments[0].normed = true;
  first.segments[0].norm = device_.vector(weights.pre_norm);
  first.segments[0].out_slots = chosen;
  add(first, matrices.down, plain(activated_, layer_config(layer).intermediate), projected_);
  start(first, listed);

  Job second = new_job();
  second.route = route;
  Input in = plain(expert_activated_, config_.expert_intermediate);
  in.slots = chosen;
  add(second, matrices.expert_down, in, expert_out_);
  second.segments[0].out_slots = chosen;
  const bool bunched = bunches(matrices.expert_down);
  if (bunched) second.segments[0].bunch_shares = shares_;
  start(second, listed);

  return {.out = expert_out_.data,
          .stride = expert_out_.stride,
          .chosen = chosen,
          .bunched = bunched,
          .shares = shares_,
          .shares_stride = kMaxChosen,
          .dense_norm = device_.vector(weights.post_norm_dense),
          .expert_norm = device_.vector(weights.post_norm)};
}

}  // namespace slip::backend::cuda
