#include "backend/cpu/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "backend/cpu/elementwise.h"
#include "base/check.h"

namespace slip::backend::cpu {

using model::Field;
using model::LayerKind;
using model::Phase;
using model::PhaseKind;

namespace {

/// Closes the gaps of padded rows: callers see [rows, cols].
void close_up(const Rows& rows, int count) {
  if (rows.stride() == rows.cols()) return;
  for (int i = 1; i < count; ++i) {
    std::memmove(rows.row(0) + int64_t{i} * rows.cols(), rows.row(i),
                 static_cast<size_t>(rows.cols()) * sizeof(float));
  }
}

}  // namespace

Executor::Executor(const Network& network, ThreadPool& pool, const CpuOptions& options, int max_rows)
    : network_(network),
      config_(network.program->config),
      weights_(*network.program->weights),
      packed_(*network.packed),
      pool_(pool),
      layout_(*network.layout),
      max_rows_(max_rows),
      mode_(packed_.any_affine || network.head->affine() ? options.activations : ActivationMode::kFloat) {
  const auto threads = static_cast<size_t>(pool.size());
  const auto rows = static_cast<size_t>(max_rows_);
  rows_.resize(rows);
  thread_blocks_.resize(threads);
  for (auto& blocks : thread_blocks_) blocks.resize(rows);
  thread_scratch_.resize(threads);
  thread_partials_.resize(threads);
  thread_columns_.resize(threads);
  for (auto& columns : thread_columns_) columns.resize(kMaxProducts * rows);
  for (size_t t = 0; t < threads; ++t) {
    embed_readers_.push_back(std::make_unique<tensor::RowReader>(network.embed_weights->embed));
    table_readers_.push_back(std::make_unique<tensor::RowReader>(weights_.per_layer_embed));
  }
  if (config_.experts > 0) {
    const size_t choices = rows * static_cast<size_t>(config_.experts_per_token);
    choices_.resize(choices);
    sorted_.resize(choices);
    shares_.resize(choices);
    expert_columns_.resize(choices);
    expert_down_columns_.resize(choices);
    spans_.resize(static_cast<size_t>(config_.experts));
    expert_counts_.resize(static_cast<size_t>(config_.experts) + 1);
  }
  if (!packed_.clusters.empty()) {
    clusters_.resize(rows * static_cast<size_t>(network.assistant->kept_centroids));
    cluster_columns_.resize(clusters_.size());
    spread_clusters_.resize(clusters_.size());
    spread_.resize(rows);
  }
  Carver counter;
  plan_memory(counter);
  memory_ = Buffer(counter.used(), "activations");
  Carver placer(memory_.data());
  plan_memory(placer);
  sliding_rotary_.fill_pages();
  full_rotary_.fill_pages();
}

void Executor::plan_memory(Carver& carver) {
  int widest_q = 0, widest_kv = 0, widest_mlp = 0;
  for (const auto& layer : config_.layers) {
    widest_q = std::max(widest_q, layer.q_size());
    widest_kv = std::max(widest_kv, layer.kv_size());
    widest_mlp = std::max(widest_mlp, layer.intermediate);
  }
  const int h = config_.hidden;
  const auto make = [&](int64_t cols, int64_t rows = 0) {
    return Rows(carver, rows > 0 ? rows : max_rows_, cols, mode_);
  };
  stream_ = make(h);
  normed_ = make(h);
  query_ = make(widest_q);
  key_ = make(widest_kv);
  value_ = make(widest_kv);
  attended_ = make(widest_q);
  activated_ = make(widest_mlp);
  projected_ = make(h);
  // Nothing comes after the head to amplify a rounding: 8 bits cost the golden logits 0.6 %, where inside the
  // layers they cost 10 % and more.
  hidden_ = Rows(carver, max_rows_, h, mode_ == ActivationMode::kInt16 ? ActivationMode::kInt8 : mode_);
  if (config_.per_layer_dim > 0) {
    per_layer_ = make(int64_t{config_.per_layer_dim} * config_.layer_count());
    per_layer_table_ = make(int64_t{config_.per_layer_dim} * config_.layer_count());
    gated_ = make(config_.per_layer_dim);
  }
  if (config_.experts > 0) {
    const int64_t choices = int64_t{max_rows_} * config_.experts_per_token;
    // A choice between experts can hang on the last bit of a score, so the router reads exact rows.
    routed_ = Rows(carver, max_rows_, h, ActivationMode::kFloat);
    router_scores_ = make(config_.experts);
    expert_input_ = make(h);
    expert_activated_ = make(config_.expert_intermediate, choices);
    expert_out_ = make(h, choices);
  }
  if (const auto* assistant = network_.assistant) {
    paired_ = make(2 * assistant->backbone_hidden);
    next_hidden_ = make(assistant->backbone_hidden);
    if (!packed_.clusters.empty()) {
      const int64_t panels = int64_t{assistant->kept_centroids} * packed_.clusters[0].panels;
      centroid_scores_ = make(assistant->centroids);
      cluster_scores_ = Rows(carver, max_rows_, panels * kPanelRows, ActivationMode::kFloat);
    }
  }
  if (network_.context_inputs > 0) taps_in_ = make(network_.context_inputs);
  const size_t taps = network_.program->taps.size() * static_cast<size_t>(h);
  taps_ = carver.allocate<float>(static_cast<size_t>(max_rows_) * taps);
  logits_ = Rows(carver, max_rows_, config_.vocab, ActivationMode::kFloat);
  const int positions = network_.kv_config->max_positions;
  sliding_rotary_ = Rotary(carver, config_, LayerKind::kSliding, max_rows_, positions);
  full_rotary_ = Rotary(carver, config_, LayerKind::kFull, max_rows_, positions);
  plan_attention_memory(carver);
}

Output Executor::run(const model::Program& program, std::span<const InputRow> rows,
                     std::span<const kv::Cache* const> caches) {
  SLIP_CHECK(static_cast<int>(rows.size()) <= max_rows_);
  program_ = &program;
  step_rows_ = rows;
  caches_ = caches;
  row_count_ = static_cast<int>(rows.size());
  any_output_ = false;
  for (int i = 0; i < row_count_; ++i) {
    any_output_ |= rows[static_cast<size_t>(i)].output;
    rows_[static_cast<size_t>(i)] = i;
  }
  pool_.run([this](int thread) { walk(thread); });
  const Rows& hidden = network_.assistant != nullptr ? next_hidden_ : hidden_;
  if (packed_.clusters.empty()) close_up(logits_, row_count_);  // spread_scores() leaves no gaps
  close_up(hidden, row_count_);
  return {.rows = row_count_,
          .logits = logits_.row(0),
          .hidden = hidden.row(0),
          .taps = program.taps.empty() ? nullptr : taps_};
}

void Executor::walk(int thread) {
  using Clock = std::chrono::steady_clock;
  const bool timed = thread == 0 && !phase_seconds_.empty() && program_ == network_.program;
  Clock::time_point before = timed ? Clock::now() : Clock::time_point();
  for (size_t i = 0; i < program_->phases.size(); ++i) {
    const Phase& next = program_->phases[i];
    phase(next, thread);
    if (timed) {
      const Clock::time_point after = Clock::now();
      phase_seconds_[i] += std::chrono::duration<double>(after - before).count();
      before = after;
    }
    if (observe) once(thread, [&] { show(next); });
    if (row_count_ == 0)
      return;  // a prompt chunk that wants nothing: its KV is stored, nothing is left to do
  }
}

void Executor::phase(const Phase& phase, int thread) {
  switch (phase.kind) {
    case PhaseKind::kEmbed: return embed(thread);
    case PhaseKind::kPerLayerInputs: return per_layer_inputs(thread);
    case PhaseKind::kQkv: return qkv(phase.layer, thread);
    case PhaseKind::kKeepOutputs: return keep_outputs(thread);
    case PhaseKind::kAttend: return attend(phase.layer, thread);
    case PhaseKind::kAttentionOut: return attention_out(phase.layer, thread);
    case PhaseKind::kGateUp: return gate_up(phase.layer, thread);
    case PhaseKind::kDown: return down(phase.layer, thread);
    case PhaseKind::kPerLayerMix: return per_layer_mix(phase.layer, thread);
    case PhaseKind::kHead: return head(thread);
    case PhaseKind::kDraftInput: return draft_input(thread);
    case PhaseKind::kDraftHead: return draft_head(thread);
    case PhaseKind::kContext: return context(thread);
    case PhaseKind::kContextKv: return context_kv(phase.layer, thread);
  }
}

int64_t Executor::panels_per_chunk(const PackedMatrix& matrix) {
  return std::clamp<int64_t>((int64_t{128} << 10) / static_cast<int64_t>(matrix.panel_bytes), 1, 64);
}

int64_t Executor::gated_panels_per_chunk(const PackedMatrix& gate) {
  constexpr int64_t kPanelsPerBlock = kQuantBlock / kPanelRows;
  return std::max<int64_t>(1, panels_per_chunk(gate) / 2 / kPanelsPerBlock) * kPanelsPerBlock;
}

void Executor::multiply(std::initializer_list<Product> products, const Rows& input, int thread,
                        const MatmulOptions& options) {
  const auto width = static_cast<size_t>(row_count_);
  Column* columns = thread_columns_[static_cast<size_t>(thread)].data();
  const auto chunks_of = [](const Product& product) {
    const int64_t panels = product.panels < 0 ? product.matrix->panels : product.panels;
    const int64_t chunk = panels_per_chunk(*product.matrix);
    return std::pair((panels + chunk - 1) / chunk, panels);
  };
  int64_t chunks = 0;
  size_t at = 0;
  for (const Product& product : products) {
    for (int i = 0; i < row_count_; ++i) columns[at++] = input.column(i, product.out->row(i));
    chunks += chunks_of(product).first;
  }
  parallel(thread, chunks, [&](int64_t i) {
    const Column* first = columns;
    for (const Product& product : products) {
      const auto [count, panels] = chunks_of(product);
      const int64_t chunk = panels_per_chunk(*product.matrix);
      if (i < count) {
        matmul(*product.matrix, {first, width}, i * chunk, std::min(panels, (i + 1) * chunk), options);
        return;
      }
      i -= count;
      first += width;
    }
  });
}

void Executor::show(const Phase& phase) const {
  const auto send = [&](const Rows& rows, int64_t cols) {
    observe(phase, rows.row(0), row_count_, cols, rows.stride());
  };
  switch (phase.output) {
    case Field::kNone: return;
    case Field::kStream: return send(stream_, config_.hidden);
    case Field::kPerLayer: return send(per_layer_, per_layer_.cols());
    case Field::kQuery: return send(query_, layer_config(phase.layer).q_size());
    case Field::kAttended: return send(attended_, layer_config(phase.layer).q_size());
    case Field::kActivated: return send(activated_, layer_config(phase.layer).intermediate);
    case Field::kLogits: return send(logits_, config_.vocab);
  }
}

}  // namespace slip::backend::cpu
