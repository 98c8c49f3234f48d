// The kernels of every phase of a wide pass; phases.cpp has the same for narrow steps.
#include <cmath>

#include "backend/cuda/phase_jobs.h"
#include "backend/cuda/wide_executor.h"
#include "base/check.h"

namespace slip::backend::cuda {

using model::LayerKind;
using model::PhaseKind;

void WideExecutor::phase(const model::Phase& phase) {
  switch (phase.kind) {
    case PhaseKind::kEmbed: return;  // the host has done it
    case PhaseKind::kPerLayerInputs: return per_layer_inputs();
    case PhaseKind::kQkv: return qkv(phase.layer);
    case PhaseKind::kKeepOutputs: return keep_outputs();
    case PhaseKind::kAttend: return attend(phase.layer);
    case PhaseKind::kAttentionOut: return attention_out(phase.layer);
    case PhaseKind::kGateUp: return gate_up(phase.layer);
    case PhaseKind::kDown: return down(phase.layer);
    case PhaseKind::kPerLayerMix: return per_layer_mix(phase.layer);
    case PhaseKind::kHead: return head();
    default: break;
  }
  SLIP_CHECK(false);  // draft networks have no wide passes
}

Input WideExecutor::plain(const Field& field, int cols) const {
  Input in;
  in.rows = field.data;
  in.stride = field.stride;
  in.cols = cols;
  in.epsilon = config_.norm_epsilon;
  return in;
}

/// The stream as input of the next products; whoever stages it makes a pending sum and keeps it.
Input WideExecutor::take_stream() {
  Input in = plain(stream_, config_.hidden);
  if (!pending_.waits) return in;
  in.branch = pending_.branch.data;
  in.branch_stride = pending_.branch.stride;
  in.branch_parts = pending_.branch.parts;
  in.part_stride = options_.max_rows * pending_.branch.stride;
  in.branch_norm = pending_.norm;
  in.scalar = pending_.scalar;
  stream_ = stream_.data == streams_[0].data ? streams_[1] : streams_[0];
  in.keep = stream_.data;
  in.keep_stride = stream_.stride;
  if (pending_.tap >= 0) {
    in.tap = taps_.data + int64_t{pending_.tap} * config_.hidden;
    in.tap_stride = taps_.stride;
  }
  pending_ = {};
  return in;
}

WideStage WideExecutor::new_stage(const Input& in, bool normed) const {
  WideStage stage;
  stage.rows = rows_;
  stage.in = in;
  stage.normed = normed;
  stage.factors = factors_;
  return stage;
}

int WideExecutor::stage_for(WideStage& stage, const PackedMatrix& matrix, const float* norm,
                            float norm_scale) {
  const StagedLayout layout{matrix.format, matrix.groups};
  for (int i = 0; i < stage.targets; ++i) {
    const WideTarget& made = stage.target[i];
    if (made.layout.format == layout.format && made.layout.groups == layout.groups && made.norm == norm &&
        made.norm_scale == norm_scale)
      return i;
  }
  SLIP_CHECK(stage.targets < kRegions);
  WideTarget& target = stage.target[stage.targets];
  target.layout = layout;
  target.pieces = matrix.pieces;
  target.slices = matrix.slices;
  target.norm = norm;
  target.norm_scale = norm_scale;
  target.staged = staged_[stage.targets];
  target.row_bytes = staged_bytes(matrix);
  if (matrix.slices > 1) stage.in.cols = matrix.cols;
  return stage.targets++;
}

WideProduct WideExecutor::product(const PackedMatrix& matrix, const WideStage& stage, int target,
                                  const Field& out) const {
  WideProduct job;
  job.matrix = matrix;
  job.rows = rows_;
  job.staged = stage.target[target].staged;
  job.row_bytes = stage.target[target].row_bytes;
  job.factors = stage.normed ? stage.factors : nullptr;
  job.epilogue = matrix.pair ? Epilogue::kGated : Epilogue::kStore;
  job.activation = config_.activation;
  job.out = out.data;
  job.out_stride = out.stride;
  job.slice_stride = options_.max_rows * out.stride;
  return job;
}

void WideExecutor::leave_sum(const Field& branch, const model::Vector& norm, float scalar, int tap) {
  SLIP_CHECK(!pending_.waits);
  pending_ = {.waits = true, .branch = branch, .norm = device_.vector(norm), .scalar = scalar, .tap = tap};
}

void WideExecutor::end_layer(int layer, const Field& branch, const model::Vector& norm) {
  leave_sum(branch, norm, layer_weights(layer).scalar, tap_of(*program_, layer));
}

void WideExecutor::per_layer_inputs() {
  WideStage stage = new_stage(take_stream(), false);
  const int target = stage_for(stage, device_.per_layer_projection, nullptr);
  start(gpu_, stage);
  start(gpu_, product(device_.per_layer_projection, stage, target, per_layer_));
  PerLayerJob mix = per_layer_job_of(config_, device_.vector(weights_.per_layer_norm));
  mix.rows = rows_;
  mix.mixed = per_layer_.data;
  mix.stride = per_layer_.stride;
  mix.table = table_.data;
  mix.table_stride = table_.stride;
  start(gpu_, mix);
}

HeadsJob WideExecutor::heads_job(int layer, bool queries) const {
  const model::LayerConfig& config = layer_config(layer);
  const model::LayerWeights& weights = layer_weights(layer);
  return {.step = device_state_.pages,
          .rows = rows_,
          .heads = queries ? config.heads : 0,
          .stores = config_.owns_kv(layer),
          .v_norm = config.v_norm,
          .epsilon = config_.norm_epsilon,
          .cache = cache_layer_of(*options_.layout, layer_config(layer).kv_source),
          .head_dim = config.head_dim,
          .turns = config.kind == LayerKind::kSliding ? options_.sliding_turns : options_.full_turns,
          .q_norm = device_.vector(weights.q_norm),
          .k_norm = device_.vector(weights.k_norm),
          .query = query_.data,
          .key = key_.data,
          .value = value_.data,
          .query_stride = query_.stride,
          .kv_stride = key_.stride};
}

void WideExecutor::qkv(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const bool queries = outputs_ > 0 || layer != program_->leave_layer;
  const float* norm = device_.vector(layer_weights(layer).input_norm);
  WideStage stage = new_stage(take_stream(), true);
  struct Part {
    const PackedMatrix* matrix;
    const Field* out;
    int target;
  };
  Part parts[3] = {};
  int count = 0;
  const auto add = [&](const PackedMatrix& matrix, const Field& out) {
    if (matrix.present()) parts[count++] = {&matrix, &out, stage_for(stage, matrix, norm)};
  };
  if (queries) add(matrices.q, query_);
  add(matrices.k, key_);
  add(matrices.v, value_);
  start(gpu_, stage);
  for (int i = 0; i < count; ++i)
    start(gpu_, product(*parts[i].matrix, stage, parts[i].target, *parts[i].out));
  start(gpu_, WideHeads{.job = heads_job(layer, queries), .rows = active_->device});
}

/// Only rows with output go on; what they have is moved to the front.
void WideExecutor::keep_outputs() {
  if (pending_.waits) start(gpu_, new_stage(take_stream(), false));
  done_ = outputs_ == 0;
  if (outputs_ == rows_ || done_) return;
  const auto keep = [&](const Field& field) {
    if (field.data == nullptr) return;
    start(gpu_, WideKeep{.data = field.data,
                         .stride = field.stride,
                         .cols = static_cast<int>(field.stride),
                         .from = device_state_.outputs,
                         .rows = outputs_});
  };
  keep(stream_);
  keep(query_);
  keep(per_layer_);
  rows_ = outputs_;
  active_ = &kept_;
}

void WideExecutor::attend(int layer) {
  const model::LayerConfig& config = layer_config(layer);
  const HeadsJob own = heads_job(layer, true);
  const auto source = static_cast<size_t>(config.kv_source);
  const int share = config.heads / own.cache.kv_heads, at_once = wide_attend_queries(own.head_dim);
  WideAttend job{.job = {.own = own,
                         .sliding = config.kind == LayerKind::kSliding,
                         .k_norm = nullptr,
                         .out = attended_.data,
                         .out_stride = attended_.stride},
                 .rows = active_->device};
  if (own.cache.k_is_v) job.job.k_norm = device_.vector(weights_.layers[source].k_norm);
  for (const RowGroup& group : active_->groups)
    job.units += (group.count * share + at_once - 1) / at_once * own.cache.kv_heads;
  start(gpu_, job);
}

void WideExecutor::attention_out(int layer) {
  const PackedMatrix& matrix = device_layer(layer).o;
  WideStage stage = new_stage(plain(attended_, layer_config(layer).q_size()), false);
  const int target = stage_for(stage, matrix, nullptr);
  start(gpu_, stage);
  start(gpu_, product(matrix, stage, target, projected_));
  Field sum = projected_;
  sum.parts = matrix.slices;
  leave_sum(sum, layer_weights(layer).post_attention_norm, 1, -1);
}

void WideExecutor::gate_up(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const model::LayerWeights& weights = layer_weights(layer);
  WideStage stage = new_stage(take_stream(), true);
  const int dense = stage_for(stage, matrices.gate_up, device_.vector(weights.pre_mlp_norm));
  if (config_.experts == 0) {
    start(gpu_, stage);
    return start(gpu_, product(matrices.gate_up, stage, dense, activated_));
  }
  const int router = stage_for(stage, matrices.router, device_.vector(weights.moe.router_scale),
                               1.0f / std::sqrt(static_cast<float>(config_.hidden)));
  const int expert = stage_for(stage, matrices.expert_gate_up, device_.vector(weights.moe.pre_norm));
  start(gpu_, stage);
  start(gpu_, product(matrices.router, stage, router, router_scores_));
  start(gpu_, WideRoute{.rows = rows_,
                        .experts = config_.experts,
                        .chosen = config_.experts_per_token,
                        .scores = router_scores_.data,
                        .stride = router_scores_.stride,
                        .expert_scale = device_.vector(weights.moe.per_expert_scale),
                        .choices = choices_});
  start(gpu_, product(matrices.gate_up, stage, dense, activated_));
  WideProduct job = product(matrices.expert_gate_up, stage, expert, expert_activated_);
  job.choices = choices_;
  job.pairs_per_row = config_.experts_per_token;
  start(gpu_, job);
}

void WideExecutor::down(int layer) {
  const PackedMatrix& matrix = device_layer(layer).down;
  const model::LayerWeights& weights = layer_weights(layer);
  WideStage stage = new_stage(plain(activated_, layer_config(layer).intermediate), false);
  const int target = stage_for(stage, matrix, nullptr);
  start(gpu_, stage);
  start(gpu_, product(matrix, stage, target, projected_));
  if (config_.experts > 0) experts(layer);
  Field sum = projected_;
  sum.parts = matrix.slices;
  if (config_.per_layer_dim == 0) {
    end_layer(layer, sum, weights.post_mlp_norm);
  } else {
    leave_sum(sum, weights.post_mlp_norm, 1, -1);
  }
}

/// Down of the experts, for pairs of a row and a choice; added to the dense branch.
void WideExecutor::experts(int layer) {
  const PackedMatrix& matrix = device_layer(layer).expert_down;
  const model::MoeWeights& weights = layer_weights(layer).moe;
  const int chosen = config_.experts_per_token;
  WideStage stage = new_stage(plain(expert_activated_, config_.expert_intermediate), false);
  const int target = stage_for(stage, matrix, nullptr);
  stage.rows = rows_ * chosen;
  stage.target[target].staged = staged_pairs_;
  start(gpu_, stage);
  WideProduct job = product(matrix, stage, target, expert_out_);
  job.choices = choices_;
  start(gpu_, job);
  start(gpu_, CombineJob{.rows = rows_,
                         .cols = config_.hidden,
                         .dense = projected_.data,
                         .dense_stride = projected_.stride,
                         .mixture = {.out = expert_out_.data,
                                     .stride = expert_out_.stride,
                                     .chosen = chosen,
                                     .shares = choices_.shares,
                                     .shares_stride = chosen,
                                     .dense_norm = device_.vector(weights.post_norm_dense),
                                     .expert_norm = device_.vector(weights.post_norm)},
                         .epsilon = config_.norm_epsilon});
}

void WideExecutor::per_layer_mix(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const int p = config_.per_layer_dim;
  WideStage stage = new_stage(take_stream(), false);
  const int target = stage_for(stage, matrices.per_layer_gate, nullptr);
  start(gpu_, stage);
  WideProduct gate = product(matrices.per_layer_gate, stage, target, gated_);
  gate.epilogue = Epilogue::kGeluTimes;
  gate.other = per_layer_.data + int64_t{layer} * p;
  gate.other_stride = per_layer_.stride;
  start(gpu_, gate);
  WideStage second = new_stage(plain(gated_, p), false);
  const int projection = stage_for(second, matrices.per_layer_projection, nullptr);
  start(gpu_, second);
  start(gpu_, product(matrices.per_layer_projection, second, projection, projected_));
  end_layer(layer, projected_, layer_weights(layer).per_layer.post_norm);
}

void WideExecutor::head() {
  WideStage stage = new_stage(take_stream(), true);
  const int target = stage_for(stage, *options_.head, device_.vector(weights_.final_norm));
  stage.normed_rows = hidden_.data;
  stage.normed_stride = hidden_.stride;
  start(gpu_, stage);
  WideProduct job =
      product(*options_.head, stage, target, {.data = logits_, .stride = config_.vocab, .parts = 1});
  job.epilogue = Epilogue::kLogits;
  job.softcap = config_.logit_softcap;
  start(gpu_, job);
}

}  // namespace slip::backend::cuda
