// What goes to the device before a step, row by row, and what comes back from it.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cuda/executor.h"
#include "backend/cuda/phase_jobs.h"
#include "base/check.h"

namespace slip::backend::cuda {

using model::PhaseKind;

void Executor::send(const model::Program& program, std::span<const InputRow> rows,
                    std::span<const kv::Cache* const> caches, int first_output,
                    std::span<const Drawing> drawings) {
  write_inputs(program, rows);
  const size_t step_bytes = write_step(rows, caches, first_output);
  size_t before = rows.size() * static_cast<size_t>(input_stride_) * sizeof(float);
  if (!drawings.empty()) {
    before += kDrawingBytes;
    std::memcpy(host_step_.data() + most_before_step() - before, drawings.data(), drawings.size_bytes());
  }
  gpu_.to_device(reinterpret_cast<std::byte*>(step_) - before,
                 host_step_.data() + most_before_step() - before, before + step_bytes);
}

/// Embeddings and such: what the host looks up for every row.
void Executor::write_inputs(const model::Program& program, std::span<const InputRow> rows) {
  const model::Config& embed = *network_.embed_config;
  auto* input = reinterpret_cast<float*>(host_step_.data() + most_before_step()) -
                static_cast<int64_t>(rows.size()) * input_stride_;
  const PhaseKind first = program.phases.front().kind;
  const auto embed_row = [&](const InputRow& row, float* to) {
    embed_reader_->floats(embed.embedding_row(row.token), to);
    for (int i = 0; i < embed.hidden; ++i) to[i] *= embed.embed_scale;
  };
  for (const InputRow& row : rows) {
    if (first == PhaseKind::kContext) {
      std::memcpy(input, row.input, static_cast<size_t>(network_.context_inputs) * sizeof(float));
    } else if (row.soft != nullptr) {
      std::memcpy(input, row.embedding(), static_cast<size_t>(config_.hidden) * sizeof(float));
    } else {
      embed_row(row, input);
    }
    if (first == PhaseKind::kDraftInput)
      std::memcpy(input + embed.hidden, row.input, static_cast<size_t>(embed.hidden) * sizeof(float));
    if (table_cols_ > 0) {
      const int id = row.soft != nullptr ? config_.pad_id : config_.embedding_row(row.token);
      table_reader_->floats(id, input + padded(input_cols_));
    }
    input += input_stride_;
  }
}

/// Returns how long the step is.
size_t Executor::write_step(std::span<const InputRow> rows, std::span<const kv::Cache* const> caches,
                            int first_output) {
  Step& step = *reinterpret_cast<Step*>(host_step_.data() + most_before_step());
  step.rows = static_cast<int>(rows.size());
  step.groups = 0;
  step.shares[0] = step.shares[1] = {};
  int pages = 0;
  for (int n = 0; n < step.rows; ++n) {
    const InputRow& row = rows[static_cast<size_t>(n)];
    const kv::Cache& cache = *caches[static_cast<size_t>(row.cache)];
    if (n == 0 || rows[static_cast<size_t>(n) - 1].cache != row.cache) {
      RowGroup& group = step.group[step.groups++];
      group = {.first = n, .count = 0, .pages = {}, .first_key = {}, .end_key = {}};
      pages += write_pages(cache, step.pages, pages, group);
      group.first_key[0] = row.sliding.first;
      group.first_key[1] = row.full.first;
    }
    RowGroup& group = step.group[step.groups - 1];
    ++group.count;
    StepRow& to = step.row[n];
    to = {.position = row.position,
          .group = step.groups - 1,
          .first = {row.sliding.first, row.full.first},
          .end = {row.sliding.end, row.full.end}};
    for (int kind = 0; kind < 2; ++kind) {
      group.first_key[kind] = std::min(group.first_key[kind], to.first[kind]);
      group.end_key[kind] = std::max(group.end_key[kind], to.end[kind]);
    }
    SLIP_CHECK(row.candidates >= 0 && row.candidates <= kMostCandidates);
    step.best[n] = row.output ? row.candidates : 0;
    step.out_rows[n] = row.output ? first_output++ : -1;
    step.logit_rows[n] = step.best[n] > 0 ? kToPick : row.output ? step.out_rows[n] : kNowhere;
  }
  return sizeof(Step) + static_cast<size_t>(pages) * sizeof(std::byte*);
}

void Executor::read_outputs(const model::Program& program, std::span<const InputRow> rows, int first_row,
                            int first_output, bool hidden) {
  const PhaseKind last = program.phases.back().kind;
  const Field& from = last == PhaseKind::kDraftHead ? next_hidden_ : hidden_;
  const bool wants = std::any_of(rows.begin(), rows.end(), [](const InputRow& row) { return row.output; });
  const auto cols = static_cast<size_t>(last == PhaseKind::kDraftHead ? network_.assistant->backbone_hidden
                                                                      : config_.hidden);
  auto* host = reinterpret_cast<float*>(host_hidden_.data());
  if (wants && hidden) {
    gpu_.to_host(host, reinterpret_cast<const std::byte*>(from.data),
                 rows.size() * static_cast<size_t>(from.stride) * sizeof(float));
  }
  if (!program.taps.empty()) {
    const auto bytes = static_cast<size_t>(taps_.stride) * sizeof(float);
    gpu_.to_host(host_taps_.data() + static_cast<size_t>(first_row) * bytes,
                 reinterpret_cast<const std::byte*>(taps_.data), rows.size() * bytes);
  }
  const bool clusters = device_.clusters.present() && last == PhaseKind::kDraftHead &&
                        std::any_of(rows.begin(), rows.end(),
                                    [](const InputRow& row) { return row.output && row.candidates == 0; });
  if (clusters) {
    const auto scores = static_cast<size_t>(network_.assistant->kept_centroids) *
                        static_cast<size_t>(cluster_scores_.stride) * sizeof(float) * rows.size();
    gpu_.to_host(host_clusters_.data(), reinterpret_cast<const std::byte*>(list_), sizeof(MatrixList));
    gpu_.to_host(host_clusters_.data() + sizeof(MatrixList),
                 reinterpret_cast<const std::byte*>(cluster_scores_.data), scores);
  }
  gpu_.finish();
  if (!wants) return;
  for (size_t n = 0; n < rows.size(); ++n) {
    if (!rows[n].output) continue;
    if (hidden) {
      std::memcpy(&out_hidden_[static_cast<size_t>(first_output) * cols],
                  host + n * static_cast<size_t>(from.stride), cols * sizeof(float));
    }
    if (rows[n].candidates == 0) {
      reinterpret_cast<BestTokens*>(host_best_.data())[first_output].wanted = 0;
      if (clusters) spread_scores(static_cast<int>(n), first_output);
    }
    ++first_output;
  }
}

/// Scores to the places of their tokens; everything else is -infinity. A row's memory is filled once and then
/// kept clean: what a step writes is taken back by the next one.
void Executor::spread_scores(int row, int out_row) {
  const int kept = network_.assistant->kept_centroids;
  const int64_t size = device_.clusters.rows;
  const auto& ordering = network_.assistant_weights->ordering;
  constexpr float kUnscored = -std::numeric_limits<float>::infinity();
  auto* logits = reinterpret_cast<float*>(host_logits_.data()) + int64_t{out_row} * config_.vocab;
  const auto& list = *reinterpret_cast<const MatrixList*>(host_clusters_.data());
  const auto* scores = reinterpret_cast<const float*>(host_clusters_.data() + sizeof(MatrixList));
  int* last = &spread_clusters_[static_cast<size_t>(out_row * kept)];
  const auto tokens = [&](int cluster) { return &ordering[static_cast<size_t>(cluster * size)]; };
  if (spread_[static_cast<size_t>(out_row)] == 0) {
    std::fill(logits, logits + config_.vocab, kUnscored);
    spread_[static_cast<size_t>(out_row)] = 1;
  } else {
    for (int i = 0; i < kept; ++i) {
      for (int64_t j = 0; j < size; ++j) logits[tokens(last[i])[j]] = kUnscored;
    }
  }
  for (int i = 0; i < kept; ++i) {
    const int cluster = list.matrix[row * kept + i];
    const float* from = scores + (int64_t{row} * kept + i) * cluster_scores_.stride;
    for (int64_t j = 0; j < size; ++j) logits[tokens(cluster)[j]] = from[j];
    last[i] = cluster;
  }
}

}  // namespace slip::backend::cuda
