// What only draft networks do: the assistant's input and head (model/assistant.h), the context of a block
// drafter (model/dflash.h).
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/executor.h"

namespace slip::backend::cpu {

void Executor::draft_input(int thread) {
  const int backbone = network_.assistant->backbone_hidden;
  parallel(thread, row_count_, [&](int64_t i) {
    const int row = static_cast<int>(i);
    embed_row(row, thread, paired_.row(i));
    std::memcpy(paired_.row(i) + backbone, active(row).input, static_cast<size_t>(backbone) * sizeof(float));
    paired_.finish(i);
    sliding_rotary_.fill_row(row, active(row).position);
    full_rotary_.fill_row(row, active(row).position);
  });
  multiply({{&packed_.pre_projection, &stream_}}, paired_, thread);
}

void Executor::draft_head(int thread) {
  parallel(thread, row_count_, [&](int64_t i) {
    norm_row(stream_.row(i), weights_.final_norm.data(), config_.hidden, config_.norm_epsilon,
             normed_.row(i));
    normed_.finish(i);
    std::memcpy(hidden_.row(i), normed_.row(i), static_cast<size_t>(config_.hidden) * sizeof(float));
    hidden_.finish(i);
  });
  multiply({{&packed_.post_projection, &next_hidden_}}, normed_, thread);
  if (packed_.clusters.empty()) return multiply({{&packed_.head, &logits_}}, hidden_, thread);

  multiply({{&packed_.centroids, &centroid_scores_}}, normed_, thread);
  parallel(thread, row_count_, [&](int64_t i) { choose_clusters(static_cast<int>(i)); });
  score_clusters(thread);
  parallel(thread, row_count_, [&](int64_t i) { spread_scores(static_cast<int>(i)); });
}

/// The clusters of the best centroids, in ascending order; ties to the lower one.
void Executor::choose_clusters(int row) {
  const int kept = network_.assistant->kept_centroids, count = network_.assistant->centroids;
  const float* scores = centroid_scores_.row(row);
  int* chosen = &clusters_[static_cast<size_t>(row * kept)];
  // A heap of the best so far, its worst on top.
  const auto better = [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; };
  std::iota(chosen, chosen + kept, 0);
  std::make_heap(chosen, chosen + kept, better);
  for (int c = kept; c < count; ++c) {
    if (!better(c, chosen[0])) continue;
    std::pop_heap(chosen, chosen + kept, better);
    chosen[kept - 1] = c;
    std::push_heap(chosen, chosen + kept, better);
  }
  std::sort(chosen, chosen + kept);
  const int64_t padded = packed_.clusters[0].panels * kPanelRows;
  for (int i = 0; i < kept; ++i) {
    cluster_columns_[static_cast<size_t>(row * kept + i)] =
        hidden_.column(row, cluster_scores_.row(row) + i * padded);
  }
}

void Executor::score_clusters(int thread) {
  const int kept = network_.assistant->kept_centroids;
  parallel(thread, int64_t{row_count_} * kept, [&](int64_t task) {
    const auto at = static_cast<size_t>(task);
    const PackedMatrix& cluster = packed_.clusters[static_cast<size_t>(clusters_[at])];
    matmul(cluster, {&cluster_columns_[at], 1}, 0, cluster.panels);
  });
}

/// Scores to the places of their tokens; everything else is -infinity. The row's memory is filled once and
/// then kept clean: what a step writes is taken back by the next one, which costs thousands of stores where
/// filling costs hundreds of thousands.
void Executor::spread_scores(int row) {
  const int kept = network_.assistant->kept_centroids;
  const auto& ordering = network_.assistant_weights->ordering;
  const int64_t size = packed_.clusters[0].rows, padded = packed_.clusters[0].panels * kPanelRows;
  constexpr float kUnscored = -std::numeric_limits<float>::infinity();
  float* logits = logits_.row(0) + int64_t{row} * config_.vocab;
  if (spread_[static_cast<size_t>(row)] == 0) {
    std::fill(logits, logits + config_.vocab, kUnscored);
    spread_[static_cast<size_t>(row)] = 1;
  }
  int* last = &spread_clusters_[static_cast<size_t>(row * kept)];
  const int* chosen = &clusters_[static_cast<size_t>(row * kept)];
  const auto tokens = [&](int cluster) { return &ordering[static_cast<size_t>(cluster * size)]; };
  for (int i = 0; i < kept; ++i) {
    for (int64_t j = 0; j < size; ++j) logits[tokens(last[i])[j]] = kUnscored;
  }
  for (int i = 0; i < kept; ++i) {
    const float* scores = cluster_scores_.row(row) + i * padded;
    for (int64_t j = 0; j < size; ++j) logits[tokens(chosen[i])[j]] = scores[j];
    last[i] = chosen[i];
  }
}

void Executor::context(int thread) {
  parallel(thread, row_count_, [&](int64_t i) {
    const int row = static_cast<int>(i);
    std::memcpy(taps_in_.row(i), active(row).input,
                static_cast<size_t>(network_.context_inputs) * sizeof(float));
    taps_in_.finish(i);
    sliding_rotary_.fill_row(row, active(row).position);
    full_rotary_.fill_row(row, active(row).position);
  });
  multiply({{&packed_.fc, &projected_}}, taps_in_, thread);
  parallel(thread, row_count_, [&](int64_t i) {
    norm_row(projected_.row(i), network_.context_norm, config_.hidden, config_.norm_epsilon, stream_.row(i));
    stream_.finish(i);
  });
}

void Executor::context_kv(int layer, int thread) {
  const PackedLayer& packed = packed_layer(layer);
  multiply({{&packed.k, &key_}, {&packed.v, &value_}}, stream_, thread);
  parallel(thread, row_count_, [&](int64_t i) { store_kv(layer, static_cast<int>(i)); });
}

}  // namespace slip::backend::cpu
