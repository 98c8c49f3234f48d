// The entries of every phase. Products (kernels/job.h) carry most of the work; what a phase adds to the
// stream is left pending for the products that read the stream next.
#include <cmath>

#include "backend/cuda/executor.h"
#include "backend/cuda/phase_jobs.h"
#include "base/check.h"

namespace slip::backend::cuda {

using model::LayerKind;
using model::PhaseKind;

StepList& Executor::list_for(const model::Program& program, int rows, bool outputs, int steps) {
  StepList& list = lists_[{&program, rows, outputs, steps}];
  if (list.ready()) return list;
  building_ = &list;
  build(program, rows, outputs, steps);
  list.finish(gpu_, rows);
  return list;
}

/// `steps`: of a chain, one after another; each is a part of the list.
void Executor::build(const model::Program& program, int rows, bool outputs, int steps) {
  program_ = &program;
  rows_ = rows;
  outputs_ = outputs;
  list_number_ = 0;
  chain_ = steps > 1;
  for (turn_ = 0; turn_ < steps; ++turn_) {
    pending_ = {};
    stream_ = input(rows_);
    mark_ = 0;
    if (turn_ > 0) next_draft();
    for (size_t i = 0; i < program.phases.size(); ++i) {
      const model::Phase& next = program.phases[i];
      // Rows that want nothing have stored what others need.
      if (!outputs && program.taps.empty() && next.kind == PhaseKind::kKeepOutputs) break;
      mark_ = static_cast<int>(i);
      phase(program, next);
    }
    building_->end_part();
  }
}

void Executor::phase(const model::Program& program, const model::Phase& phase) {
  switch (phase.kind) {
    case PhaseKind::kEmbed: return;  // the host has done it
    case PhaseKind::kPerLayerInputs: return per_layer_inputs();
    case PhaseKind::kQkv: {
      const bool queries = outputs_ || !program.taps.empty() || phase.layer != program.leave_layer;
      qkv(phase.layer, queries);
      return heads(phase.layer, queries);
    }
    case PhaseKind::kKeepOutputs: return;  // 16 rows cost about as much as one
    case PhaseKind::kAttend: return attend_layer(phase.layer);
    case PhaseKind::kAttentionOut: return attention_out(phase.layer);
    case PhaseKind::kGateUp: return gate_up(phase.layer);
    case PhaseKind::kDown: return down(phase.layer);
    case PhaseKind::kPerLayerMix: return per_layer_mix(phase.layer);
    case PhaseKind::kHead: return head();
    case PhaseKind::kDraftInput: return draft_input();
    case PhaseKind::kDraftHead: return draft_head();
    case PhaseKind::kContext: return context();
    case PhaseKind::kContextKv: return context_kv(phase.layer);
  }
}

Job Executor::new_job() const {
  Job job;
  job.rows = rows_;
  job.list = list_;
  job.list_number = list_number_;
  return job;
}

Input Executor::plain(const Field& field, int cols) {
  Input in;
  in.rows = field.data;
  in.stride = field.stride;
  in.cols = cols;
  return in;
}

Input Executor::take_stream() {
  Input in = plain(stream_, config_.hidden);
  in.epsilon = config_.norm_epsilon;
  if (!pending_.waits) return in;
  in.branch = pending_.branch.data;
  in.branch_stride = pending_.branch.stride;
  in.branch_parts = pending_.branch.parts;
  in.part_stride = kMaxRows * pending_.branch.stride;
  in.branch_norm = pending_.norm;
  in.mixture = pending_.mixture;
  in.scalar = pending_.scalar;
  stream_ = stream_.data == streams_[0].data ? streams_[1] : streams_[0];
  in.keep = stream_.data;
  in.keep_stride = stream_.stride;
  if (pending_.tap >= 0) {
    in.tap = taps_.data + int64_t{pending_.tap} * config_.hidden;
    in.tap_stride = taps_.stride;
  }
  pending_ = {};
  if (!sums_first(in)) return in;
  building_->add(StepKind::kSum, SumJob{.rows = rows_, .in = in}, mark_);
  Input sum = plain(stream_, config_.hidden);
  sum.epsilon = config_.norm_epsilon;
  return sum;
}

/// Whether a phase of its own is less work than a sum by every block for itself: of experts, unless they have
/// been added up in bunches, and of many parts of several rows, which all blocks together would read from the
/// second-level cache.
bool Executor::sums_first(const Input& in) const {
  const int64_t most_bytes = rows_ == 2 ? 200'000 : 60'000;  // by a block
  if (in.mixture.chosen > 0) return !in.mixture.bunched;
  return rows_ > 1 && in.branch_norm != nullptr && config_.hidden <= kMostTurns * kTurnCols &&
         int64_t{rows_} * in.branch_parts * config_.hidden * 4 > most_bytes;
}

void Executor::add(Job& job, const PackedMatrix& matrix, const Input& in, const Field& out) {
  SLIP_CHECK(job.segment_count < kMaxSegments && matrix.present());
  Segment& segment = job.segments[job.segment_count++];
  segment.matrix = matrix;
  segment.in = in;
  segment.out = out.data;
  segment.out_stride = out.stride;
  segment.activation = config_.activation;
  if (matrix.pair) segment.epilogue = Epilogue::kGated;
}

Executor::Field Executor::add_slices(Job& job, const PackedMatrix& matrix, const Input& in,
                                     const Field& out) {
  for (int i = 0; i < matrix.slices; ++i) {
    Input columns = in;
    columns.rows += int64_t{i} * matrix.cols;
    columns.cols = matrix.cols;
    add(job, matrix.slice(i), columns, out.part(i));
  }
  return {.data = out.data, .stride = out.stride, .parts = matrix.slices};
}

void Executor::start(Job& job, int listed) {
  building_->add_product(gpu_, job, listed, mark_);
}

void Executor::leave_sum(const Field& branch, const model::Vector& norm, float scalar, int tap) {
  SLIP_CHECK(!pending_.waits);
  pending_ = {.waits = true, .branch = branch, .norm = device_.vector(norm), .scalar = scalar, .tap = tap};
}

void Executor::end_layer(int layer, const Field& branch, const model::Vector& norm) {
  leave_sum(branch, norm, layer_weights(layer).scalar, tap_of(*program_, layer));
}

void Executor::per_layer_inputs() {
  Job job = new_job();
  add(job, device_.per_layer_projection, take_stream(), per_layer_);
  start(job);
  PerLayerJob mix = per_layer_job_of(config_, device_.vector(weights_.per_layer_norm));
  mix.rows = rows_;
  mix.mixed = per_layer_.data;
  mix.stride = per_layer_.stride;
  mix.table = input(rows_).data + padded(input_cols_);
  mix.table_stride = input_stride_;
  building_->add(StepKind::kPerLayer, mix, mark_);
}

void Executor::qkv(int layer, bool queries) {
  const DeviceLayer& matrices = device_layer(layer);
  Job job = new_job();
  const Input in = take_stream();
  if (queries) add(job, matrices.q, in, query_);
  if (matrices.k.present()) add(job, matrices.k, in, key_);
  if (matrices.v.present()) add(job, matrices.v, in, value_);
  for (int i = 0; i < job.segment_count; ++i) {
    job.segments[i].normed = true;
    job.segments[i].norm = device_.vector(layer_weights(layer).input_norm);
  }
  start(job);
}

HeadsJob Executor::heads_job(int layer, bool queries) const {
  const model::LayerConfig& config = layer_config(layer);
  const model::LayerWeights& weights = layer_weights(layer);
  return {.step = step_,
          .rows = rows_,
          .heads = queries ? config.heads : 0,
          .stores = config_.owns_kv(layer),
          .v_norm = config.v_norm,
          .epsilon = config_.norm_epsilon,
          .cache = cache_layer_of(*network_.layout, layer_config(layer).kv_source),
          .head_dim = config.head_dim,
          .turns = turns(config.kind),
          .q_norm = device_.vector(weights.q_norm),
          .k_norm = device_.vector(weights.k_norm),
          .query = query_.data,
          .key = key_.data,
          .value = value_.data,
          .query_stride = query_.stride,
          .kv_stride = key_.stride};
}

/// Where attention does not do it itself.
void Executor::heads(int layer, bool queries) {
  const HeadsJob job = heads_job(layer, queries);
  if (queries && job.cache.element_bytes == 2) return;
  if (job.heads > 0 || job.stores) building_->add(StepKind::kHeads, job, mark_);
}

void Executor::attend_layer(int layer) {
  const model::LayerConfig& config = layer_config(layer);
  const HeadsJob own = heads_job(layer, true);
  const auto source = static_cast<size_t>(config.kv_source);
  const float* k_norm = nullptr;
  if (own.cache.k_is_v)
    k_norm = network_.kv_device_weights->vector(network_.kv_weights->layers[source].k_norm);
  AttendJob job{.own = own,
                .sliding = config.kind == LayerKind::kSliding,
                .merges = false,
                .k_norm = k_norm,
                .most_blocks = most_blocks(config.kind),
                .partials = partials_,
                .weights = partial_weights_,
                .out = attended_.data,
                .out_stride = attended_.stride};
  if (own.cache.element_bytes == 4) return building_->add(StepKind::kAttendFloats, job, mark_);
  building_->add(StepKind::kAttend, job, mark_);
  job.merges = true;
  building_->add(StepKind::kAttend, job, mark_);
}

void Executor::attention_out(int layer) {
  Job job = new_job();
  const Field sum =
      add_slices(job, device_layer(layer).o, plain(attended_, layer_config(layer).q_size()), projected_);
  start(job);
  leave_sum(sum, layer_weights(layer).post_attention_norm, 1, -1);
}

void Executor::gate_up(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const model::LayerWeights& weights = layer_weights(layer);
  Job job = new_job();
  const Input in = take_stream();
  add(job, matrices.gate_up, in, activated_);
  job.segments[0].normed = true;
  job.segments[0].norm = device_.vector(weights.pre_mlp_norm);
  if (config_.experts > 0) {
    add(job, matrices.router, in, router_scores_);
    job.segments[1].normed = true;
    job.segments[1].norm = device_.vector(weights.moe.router_scale);
    job.segments[1].norm_scale = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
    ++list_number_;
  }
  start(job);
}

void Executor::down(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const model::LayerWeights& weights = layer_weights(layer);
  Field sum = projected_;
  Mixture mixture;
  if (config_.experts > 0) {
    mixture = experts(layer);
  } else {
    Job job = new_job();
    sum = add_slices(job, matrices.down, plain(activated_, layer_config(layer).intermediate), projected_);
    start(job);
  }
  if (config_.per_layer_dim == 0) {
    end_layer(layer, sum, weights.post_mlp_norm);
  } else {
    leave_sum(sum, weights.post_mlp_norm, 1, -1);
  }
  pending_.mixture = mixture;
}

void Executor::per_layer_mix(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  const int p = config_.per_layer_dim;
  Job gate = new_job();
  add(gate, matrices.per_layer_gate, take_stream(), gated_);
  gate.segments[0].epilogue = Epilogue::kGeluTimes;
  gate.segments[0].other = per_layer_.data + int64_t{layer} * p;
  gate.segments[0].other_stride = per_layer_.stride;
  start(gate);
  Job projection = new_job();
  add(projection, matrices.per_layer_projection, plain(gated_, p), projected_);
  start(projection);
  end_layer(layer, projected_, layer_weights(layer).per_layer.post_norm);
}

void Executor::head() {
  Job job = new_job();
  Segment& segment = add_head(job, take_stream());
  segment.normed = true;
  segment.norm = device_.vector(weights_.final_norm);
  segment.keep_normed = hidden_.data;
  segment.keep_normed_stride = hidden_.stride;
  segment.softcap = config_.logit_softcap;
  start(job);
  pick_tokens();
}

/// Logits to the host, or to where the best of them are picked.
Segment& Executor::add_head(Job& job, const Input& in) {
  add(job, *network_.head, in,
      {.data = reinterpret_cast<float*>(host_logits_.data()), .stride = config_.vocab});
  Segment& segment = job.segments[job.segment_count - 1];
  segment.epilogue = Epilogue::kLogits;
  segment.out_rows = step_->logit_rows;
  segment.stay = logits_.data;
  segment.stay_stride = logits_.stride;
  return segment;
}

void Executor::pick_tokens() {
  PickJob job{.rows = rows_,
              .size = config_.vocab,
              .scores = logits_.data,
              .stride = logits_.stride,
              .found = found_,
              .finished = picked_,
              .damaged = damaged_,
              .out = reinterpret_cast<BestTokens*>(host_best_.data())};
  if (device_.clusters.present()) {
    job.list = list_;
    job.ordering = reinterpret_cast<const int*>(ordering_.data());
    job.kept = network_.assistant->kept_centroids;
    job.cluster_size = static_cast<int>(device_.clusters.rows);
    job.size = job.kept * job.cluster_size;
    job.scores = cluster_scores_.data;
    job.stride = cluster_scores_.stride;
  }
  job.chunks = pick_chunks(gpu_, rows_, job.size);
  if (chain_) job.out = chain_best_ + int64_t{turn_} * rows_;
  building_->add(StepKind::kPick, job, mark_);
}

}  // namespace slip::backend::cuda
