// What only draft networks do: an assistant's input and head, a block drafter's context.
#include "backend/cuda/executor.h"

namespace slip::backend::cuda {

void Executor::draft_input() {
  Job job = new_job();
  const Field from = chain_ ? chain_input(turn_) : input(rows_);
  const Field sum = add_slices(job, device_.pre_projection,
                               plain(from, 2 * network_.assistant->backbone_hidden), projected_);
  start(job);
  stream_ = {};  // the sum alone
  pending_ = {.waits = true, .branch = sum};
}

void Executor::draft_head() {
  const model::AssistantConfig& assistant = *network_.assistant;
  Job job = new_job();
  const Input in = take_stream();
  add(job, device_.post_projection, in, chain_ ? chain_hiddens(turn_) : next_hidden_);
  if (assistant.centroids > 0) {
    add(job, device_.centroids, in, centroid_scores_);
  } else {
    add_head(job, in);
  }
  for (int i = 0; i < job.segment_count; ++i) {
    job.segments[i].normed = true;
    job.segments[i].norm = device_.vector(weights_.final_norm);
  }
  job.segments[0].keep_normed = hidden_.data;
  job.segments[0].keep_normed_stride = hidden_.stride;
  start(job);
  if (assistant.centroids == 0) return pick_tokens();

  building_->add(StepKind::kClusters,
                 ClusterJob{.rows = rows_,
                            .clusters = assistant.centroids,
                            .kept = assistant.kept_centroids,
                            .scores = centroid_scores_.data,
                            .stride = centroid_scores_.stride,
                            .list = list_},
                 mark_);
  ++list_number_;
  Job scores = new_job();
  add(scores, device_.clusters, plain(hidden_, config_.hidden), cluster_scores_);
  scores.segments[0].out_slots = assistant.kept_centroids;
  start(scores, rows_ * assistant.kept_centroids);
  pick_tokens();
}

void Executor::context() {
  Job job = new_job();
  context_ = add_slices(job, device_.fc, plain(input(rows_), network_.context_inputs), projected_);
  start(job);
}

void Executor::context_kv(int layer) {
  const DeviceLayer& matrices = device_layer(layer);
  Input in;
  in.cols = config_.hidden;
  in.epsilon = config_.norm_epsilon;
  in.branch = context_.data;
  in.branch_stride = context_.stride;
  in.branch_parts = context_.parts;
  in.part_stride = kMaxRows * context_.stride;
  in.branch_norm = device_.vector(*network_.context_norm);
  Job job = new_job();
  add(job, matrices.k, in, key_);
  if (matrices.v.present()) add(job, matrices.v, in, value_);
  start(job);
  heads(layer, false);
}

}  // namespace slip::backend::cuda
