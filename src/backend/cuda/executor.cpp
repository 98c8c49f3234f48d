#include "backend/cuda/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cuda/phase_jobs.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cuda {

using model::LayerKind;
using model::PhaseKind;

namespace {

// Rows of logits that are there from the beginning; whoever asks for more at once, as no engine does, waits
// once for the memory.
constexpr int kUsualOutputs = 64;
// Rows of a wide pass: enough that every expert of a mixture has some tiles of them.
constexpr int kMostWideRows = 2048;

}  // namespace

Executor::Executor(const Network& network, Gpu& gpu, const CudaOptions& options, int max_rows)
    : network_(network),
      config_(network.program->config),
      weights_(*network.program->weights),
      device_(*network.weights),
      gpu_(gpu),
      options_(options),
      max_rows_(max_rows) {
  prepare_steps(gpu);
  const auto rows = static_cast<size_t>(max_rows);
  const auto h = static_cast<size_t>(config_.hidden);
  if (config_.experts_per_token > kMaxChosen || config_.experts > 256)
    fail(ErrorKind::kRuntime, "the CUDA kernels take up to 256 experts and {} of them per token", kMaxChosen);
  if (config_.experts > 0 && config_.hidden > 4 * kWarps * 32 * 3)
    fail(ErrorKind::kRuntime, "the CUDA kernels take models with experts of up to 6144 columns");
  input_cols_ = config_.hidden;
  if (network.assistant != nullptr) input_cols_ = 2 * network.assistant->backbone_hidden;
  input_cols_ = std::max(input_cols_, network.context_inputs);
  table_cols_ = config_.per_layer_dim * config_.layer_count();

  Carver counter;
  plan_memory(counter);
  memory_ = DeviceMemory(counter.used(), "activations");
  Carver placer(memory_.data());
  plan_memory(placer);
  gpu.clear(memory_.data(), memory_.size());
  fill_turns();

  host_step_ = PinnedMemory(most_before_step() + step_bytes_, "a step and its inputs");
  reserve_outputs(network.assistant != nullptr ? max_rows : std::min(max_rows, kUsualOutputs));
  host_best_ = PinnedMemory((chains() ? kMostChain : 1) * rows * sizeof(BestTokens), "the best tokens");
  const auto hidden_cols =
      network.assistant != nullptr ? static_cast<size_t>(network.assistant->backbone_hidden) : h;
  host_hidden_ = PinnedMemory(kMaxRows * hidden_cols * 2 * sizeof(float), "hidden states");
  out_hidden_.resize(rows * hidden_cols);
  const size_t taps = network.program->taps.size() * h;
  if (taps > 0) host_taps_ = PinnedMemory(rows * taps * sizeof(float), "taps");
  if (device_.clusters.present()) {
    const auto kept = static_cast<size_t>(network.assistant->kept_centroids);
    SLIP_CHECK(kept * kMaxRows <= kMaxListed);
    host_clusters_ = PinnedMemory(
        kMaxRows * kept * static_cast<size_t>(cluster_scores_.stride) * sizeof(float) + sizeof(MatrixList),
        "scores");
    spread_clusters_.resize(rows * kept);
    spread_.resize(rows);
    const auto& ordering = network.assistant_weights->ordering;
    ordering_ = DeviceMemory(ordering.size() * sizeof(int32_t), "tokens by cluster");
    gpu.to_device(ordering_.data(), ordering.data(), ordering_.size());
  }
  embed_reader_ = std::make_unique<tensor::RowReader>(network.embed_weights->embed);
  table_reader_ = std::make_unique<tensor::RowReader>(weights_.per_layer_embed);
  make_wide();
  gpu.finish();
}

void Executor::make_wide() {
  if (max_rows_ <= kMaxRows || network_.pool == nullptr) return;
  if (network_.layout->storage() != kv::Storage::kBf16) return;
  wide_ =
      std::make_unique<WideExecutor>(WideExecutor::Options{.program = network_.program,
                                                           .weights = network_.weights,
                                                           .layout = network_.layout,
                                                           .head = network_.head,
                                                           .sliding_turns = sliding_turns_,
                                                           .full_turns = full_turns_,
                                                           .pool = network_.pool,
                                                           .max_rows = std::min(max_rows_, kMostWideRows)},
                                     gpu_);
}

int Executor::most_blocks(LayerKind kind) const {
  if (kind == LayerKind::kFull) return KeyBlocks::of(false, network_.kv_config->max_positions - 1) + 1;
  return KeyBlocks::most_of_window(network_.kv_config->window, network_.layout->max_step_rows());
}

void Executor::plan_memory(Carver& carver) {
  int widest_q = 0, widest_kv = 0, widest_mlp = 0;
  for (const auto& layer : config_.layers) {
    widest_q = std::max(widest_q, layer.q_size());
    widest_kv = std::max(widest_kv, layer.kv_size());
    widest_mlp = std::max(widest_mlp, layer.intermediate);
  }
  const auto field = [&](int64_t cols, int64_t rows = kMaxRows) {
    const int64_t stride = padded(cols);
    return Field{.data = carver.allocate<float>(static_cast<size_t>(rows * stride)), .stride = stride};
  };
  const int h = config_.hidden;
  if (network_.table != nullptr) {
    chain_best_ = carver.allocate<BestTokens>(size_t{kMostChain} * kMaxRows);
    chain_inputs_ = field(input_cols_, int64_t{kMaxRows} * kMostChain);
  }
  input_stride_ = padded(padded(input_cols_) + table_cols_);
  streams_[0] = field(h);
  streams_[1] = field(h);
  projected_ = field(h, kMaxRows * kMaxSlices);
  query_ = field(widest_q);
  key_ = field(widest_kv);
  value_ = field(widest_kv);
  attended_ = field(widest_q);
  activated_ = field(widest_mlp);
  hidden_ = field(h);
  if (table_cols_ > 0) {
    per_layer_ = field(table_cols_);
    gated_ = field(config_.per_layer_dim);
  }
  if (config_.experts > 0) {
    router_scores_ = field(config_.experts);
    // Rows of whole pieces, whatever the format: those of a bunch are staged as one (kernels/job.h).
    expert_activated_ =
        field((config_.expert_intermediate + 127) / 128 * 128, kMaxRows * config_.experts_per_token);
    expert_out_ = field(h, kMaxRows * config_.experts_per_token);
    shares_ = carver.allocate<float>(size_t{kMaxRows} * kMaxChosen);
  }
  list_ = carver.allocate<MatrixList>(1);
  if (const auto* assistant = network_.assistant) {
    next_hidden_ = field(assistant->backbone_hidden);
    if (assistant->centroids > 0) {
      centroid_scores_ = field(assistant->centroids);
      cluster_scores_ = field(device_.clusters.rows, int64_t{kMaxRows} * assistant->kept_centroids);
    }
  }
  if (!device_.clusters.present()) logits_ = field(config_.vocab);
  found_ = carver.allocate<Found>(size_t{kMaxRows} * kMostPickChunks * kMostCandidates);
  picked_ = carver.allocate<uint32_t>(kMaxRows);
  damaged_ = carver.allocate<uint32_t>(kMaxRows);
  const auto taps = static_cast<int64_t>(network_.program->taps.size()) * h;
  taps_ = {.data = carver.allocate<float>(static_cast<size_t>(kMaxRows * taps)), .stride = taps};

  size_t partials = 0, weights = 0;
  for (const auto& layer : config_.layers) {
    const auto blocks = static_cast<size_t>(most_blocks(layer.kind));
    partials = std::max(partials, blocks * static_cast<size_t>(layer.q_size()));
    weights = std::max(weights, blocks * static_cast<size_t>(layer.heads) * 2);
  }
  partials_ = carver.allocate<float>(partials * kMaxRows);
  partial_weights_ = carver.allocate<float>(weights * kMaxRows);

  const int pages = network_.kv_config->max_positions / kv::kPagePositions + 2;
  step_bytes_ = sizeof(Step) + size_t{kMaxRows} * most_table_entries(*network_.layout) * sizeof(std::byte*);
  auto* sent = carver.allocate<std::byte>(most_before_step() + step_bytes_);
  step_ = sent == nullptr ? nullptr : reinterpret_cast<Step*>(sent + most_before_step());
  int at = 0;
  for (const auto kind : {LayerKind::kSliding, LayerKind::kFull}) {
    Turns& turns = kind == LayerKind::kSliding ? sliding_turns_ : full_turns_;
    for (const auto& layer : config_.layers) {
      if (layer.kind == kind) turns.pairs = layer.rotated_pairs;
    }
    const auto pairs = static_cast<size_t>(turns.pairs);
    turns.page = turn_tables_[at++] = carver.allocate<float>(kv::kPagePositions * pairs * 2);
    turns.base = turn_tables_[at++] = carver.allocate<float>(static_cast<size_t>(pages) * pairs * 2);
  }
}

void Executor::fill_turns() {
  std::vector<float> table;
  const auto fill = [&](float* to, const model::LayerConfig& layer, int count, int stride) {
    table.resize(static_cast<size_t>(count) * static_cast<size_t>(layer.rotated_pairs) * 2);
    size_t at = 0;
    for (int i = 0; i < count; ++i) {
      for (int pair = 0; pair < layer.rotated_pairs; ++pair) {
        const double angle = model::Config::rope_frequency(layer, pair) * i * stride;
        table[at++] = static_cast<float>(std::cos(angle));
        table[at++] = static_cast<float>(std::sin(angle));
      }
    }
    if (table.empty()) return;
    gpu_.to_device(reinterpret_cast<std::byte*>(to), table.data(), table.size() * sizeof(float));
    gpu_.finish();
  };
  const int pages = network_.kv_config->max_positions / kv::kPagePositions + 2;
  int at = 0;
  for (const auto kind : {LayerKind::kSliding, LayerKind::kFull}) {
    const model::LayerConfig* found = nullptr;
    for (const auto& layer : config_.layers) {
      if (layer.kind == kind) found = &layer;
    }
    if (found != nullptr) {
      fill(turn_tables_[at], *found, kv::kPagePositions, 1);
      fill(turn_tables_[at + 1], *found, pages, kv::kPagePositions);
    }
    at += 2;
  }
}

/// Logits of so many rows. Lists of steps know where they go.
void Executor::reserve_outputs(int outputs) {
  if (outputs <= most_outputs_) return;
  most_outputs_ = outputs;
  lists_.clear();
  host_logits_ = PinnedMemory(
      static_cast<size_t>(outputs) * static_cast<size_t>(config_.vocab) * sizeof(float), "logits");
}

Output Executor::run(const model::Program& program, std::span<const InputRow> rows,
                     std::span<const kv::Cache* const> caches, bool hidden) {
  SLIP_CHECK(static_cast<int>(rows.size()) <= max_rows_);
  reserve_outputs(static_cast<int>(
      std::count_if(rows.begin(), rows.end(), [](const InputRow& row) { return row.output; })));
  int outputs = 0;
  for (size_t first = 0; first < rows.size();) {
    if (wide_ != nullptr && rows.size() - first > kMaxRows) {
      const auto piece =
          rows.subspan(first, std::min(rows.size() - first, static_cast<size_t>(wide_->max_rows())));
      run_wide(program, piece, caches, static_cast<int>(first), outputs);
      for (const InputRow& row : piece) outputs += row.output ? 1 : 0;
      first += piece.size();
      continue;
    }
    // A cache's rows are only parted where one pass cannot hold them.
    size_t end = std::min(rows.size(), first + kMaxRows);
    if (end < rows.size() && rows[end].cache == rows[end - 1].cache) {
      size_t start = end;
      while (start > first && rows[start - 1].cache == rows[end].cache) --start;
      if (start > first) end = start;
    }
    const auto piece = rows.subspan(first, end - first);
    run_piece(program, piece, caches, static_cast<int>(first), outputs, hidden);
    for (const InputRow& row : piece) outputs += row.output ? 1 : 0;
    first = end;
  }
  return {.rows = outputs,
          .logits = reinterpret_cast<const float*>(host_logits_.data()),
          .best = reinterpret_cast<const BestTokens*>(host_best_.data()),
          .hidden = hidden ? out_hidden_.data() : nullptr,
          .taps = program.taps.empty() ? nullptr : reinterpret_cast<const float*>(host_taps_.data())};
}

void Executor::run_wide(const model::Program& program, std::span<const InputRow> rows,
                        std::span<const kv::Cache* const> caches, int first_row, int first_output) {
  const auto taps = static_cast<int64_t>(program.taps.size()) * config_.hidden;
  const WideExecutor::Results results{
      .logits = reinterpret_cast<float*>(host_logits_.data()) + int64_t{first_output} * config_.vocab,
      .hidden = out_hidden_.data() + int64_t{first_output} * config_.hidden,
      .taps = taps > 0 ? reinterpret_cast<float*>(host_taps_.data()) + first_row * taps : nullptr};
  const bool timed = !phase_seconds_.empty() && &program == network_.program;
  wide_->run(program, rows, caches, results, timed ? std::span<double>(phase_seconds_) : std::span<double>());
  auto* best = reinterpret_cast<BestTokens*>(host_best_.data()) + first_output;
  for (const InputRow& row : rows) {
    if (row.output) (best++)->wanted = 0;  // wide passes give all logits
  }
}

void Executor::run_piece(const model::Program& program, std::span<const InputRow> rows,
                         std::span<const kv::Cache* const> caches, int first_row, int first_output,
                         bool hidden) {
  send(program, rows, caches, first_output);
  const int count = static_cast<int>(rows.size());
  const bool outputs = std::any_of(rows.begin(), rows.end(), [](const InputRow& row) { return row.output; });
  const bool timed = !phase_seconds_.empty() && &program == network_.program;
  StepList& list = list_for(program, count, outputs);
  list.start(gpu_, step_, timed);
  read_outputs(program, rows, first_row, first_output, hidden);
  if (!timed) return;
  for (const StepList::Timing& timing : list.timings(gpu_)) {
    phase_seconds_[static_cast<size_t>(timing.mark)] += timing.seconds;
    phase_seconds_.back() += timing.waited;
  }
}

}  // namespace slip::backend::cuda
