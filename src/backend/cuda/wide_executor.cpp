#include "backend/cuda/wide_executor.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/phase_jobs.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cuda {

namespace {

/// Rows start on 16 bytes.
int64_t padded(int64_t cols) {
  return (cols + 3) / 4 * 4;
}

}  // namespace

WideExecutor::WideExecutor(const Options& options, Gpu& gpu)
    : options_(options),
      config_(options.program->config),
      weights_(*options.program->weights),
      device_(*options.weights),
      gpu_(gpu) {
  prepare_wide(gpu);
  table_cols_ = config_.per_layer_dim * config_.layer_count();
  most_pages_ = static_cast<size_t>(options.max_rows) * most_table_entries(*options.layout);
  Carver counter;
  plan_memory(counter);
  memory_ = DeviceMemory(counter.used(), "activations of prompts");
  Carver placer(memory_.data());
  plan_memory(placer);
  gpu.clear(memory_.data(), memory_.size());

  const auto rows = static_cast<size_t>(options.max_rows);
  host_input_ = PinnedMemory(rows * static_cast<size_t>(input_.stride) * sizeof(float), "inputs");
  Carver state_counter;
  plan_state(state_counter, true);
  host_state_memory_ = PinnedMemory(state_counter.used(), "a pass");
  Carver state_placer(host_state_memory_.data());
  plan_state(state_placer, true);
  host_hidden_ = PinnedMemory(rows * static_cast<size_t>(hidden_.stride) * sizeof(float), "hidden states");
  for (int i = 0; i < options.pool->size(); ++i)
    readers_.push_back({tensor::RowReader(weights_.embed), tensor::RowReader(weights_.per_layer_embed)});
  gpu.finish();
}

void WideExecutor::plan_memory(Carver& carver) {
  const auto rows = static_cast<int64_t>(options_.max_rows);
  int widest_q = 0, widest_kv = 0, widest_mlp = 0, slices = 1;
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    const model::LayerConfig& layer = config_.layers[i];
    widest_q = std::max(widest_q, layer.q_size());
    widest_kv = std::max(widest_kv, layer.kv_size());
    widest_mlp = std::max(widest_mlp, layer.intermediate);
    slices = std::max({slices, device_.layers[i].o.slices, device_.layers[i].down.slices});
  }
  const auto field = [&](int64_t cols, int64_t times = 1) {
    const int64_t stride = padded(cols);
    return Field{.data = carver.allocate<float>(static_cast<size_t>(rows * times * stride)),
                 .stride = stride};
  };
  const int h = config_.hidden;
  input_ = field(padded(h) + table_cols_);
  table_ = {.data = input_.data == nullptr ? nullptr : input_.data + padded(h), .stride = input_.stride};
  streams_[0] = field(h);
  streams_[1] = field(h);
  projected_ = field(h, slices);
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
  const auto taps = static_cast<int64_t>(options_.program->taps.size()) * h;
  taps_ = {.data = carver.allocate<float>(static_cast<size_t>(rows * taps)), .stride = taps};
  factors_ = carver.allocate<float>(static_cast<size_t>(rows));
  if (config_.experts > 0) {
    const int chosen = config_.experts_per_token;
    const auto pairs = static_cast<size_t>(rows * chosen);
    router_scores_ = field(config_.experts);
    expert_activated_ = field(config_.expert_intermediate, chosen);
    expert_out_ = field(h, chosen);
    choices_.pairs = carver.allocate<int>(pairs);
    choices_.experts = carver.allocate<int>(pairs);
    choices_.shares = carver.allocate<float>(pairs);
    choices_.counts = carver.allocate<int>(static_cast<size_t>(config_.experts));
    choices_.tile_count = carver.allocate<int>(1);
    choices_.most_tiles = static_cast<int>(pairs) / kWideTokens + config_.experts;
    choices_.tiles = carver.allocate<WideTile>(static_cast<size_t>(choices_.most_tiles));
  }
  plan_staged(carver);
  plan_state(carver, false);
}

/// Staged rows: the first region for any matrix, the others for those that are staged together.
void WideExecutor::plan_staged(Carver& carver) {
  int64_t bytes[kRegions] = {}, pair_bytes = 0;
  const auto need = [&](const PackedMatrix& matrix, int regions) {
    if (!matrix.present()) return;
    for (int i = 0; i < regions; ++i) bytes[i] = std::max(bytes[i], staged_bytes(matrix));
  };
  for (const DeviceLayer& layer : device_.layers) {
    for (const PackedMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.gate_up, &layer.router, &layer.expert_gate_up})
      need(*matrix, config_.experts > 0 ? kRegions : 1);
    // Keys and values may be stored in other ways than queries.
    const auto same = [&](const PackedMatrix& one) {
      return !one.present() || (one.format == layer.q.format && one.groups == layer.q.groups);
    };
    if (!same(layer.k) || !same(layer.v)) {
      for (const PackedMatrix* matrix : {&layer.q, &layer.k, &layer.v}) need(*matrix, kRegions);
    }
    for (const PackedMatrix* matrix :
         {&layer.o, &layer.down, &layer.per_layer_gate, &layer.per_layer_projection})
      need(*matrix, 1);
    if (layer.expert_down.present())
      pair_bytes = std::max(pair_bytes, staged_bytes(layer.expert_down) * config_.experts_per_token);
  }
  need(device_.per_layer_projection, 1);
  need(*options_.head, 1);
  for (int i = 0; i < kRegions; ++i)
    staged_[i] = carver.allocate<std::byte>(static_cast<size_t>(bytes[i] * options_.max_rows));
  staged_pairs_ = carver.allocate<std::byte>(static_cast<size_t>(pair_bytes * options_.max_rows));
}

/// The same layout in the host's memory and on the device, so that one copy brings all.
void WideExecutor::plan_state(Carver& carver, bool host) {
  State& state = host ? host_state_ : device_state_;
  const auto rows = static_cast<size_t>(options_.max_rows);
  const size_t page_bytes = sizeof(Step) + most_pages_ * sizeof(std::byte*);
  const auto aligned = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  const size_t row_bytes = aligned(2 * rows * sizeof(StepRow)),
               group_bytes = aligned(2 * rows * sizeof(RowGroup)), output_bytes = aligned(rows * sizeof(int));
  state.bytes = row_bytes + group_bytes + output_bytes + page_bytes;
  auto* base = carver.allocate<std::byte>(state.bytes);
  if (base == nullptr) return;
  state.row = reinterpret_cast<StepRow*>(base);
  state.group = reinterpret_cast<RowGroup*>(base + row_bytes);
  state.outputs = reinterpret_cast<int*>(base + row_bytes + group_bytes);
  state.pages = reinterpret_cast<Step*>(base + row_bytes + group_bytes + output_bytes);
}

void WideExecutor::run(const model::Program& program, std::span<const InputRow> rows,
                       std::span<const kv::Cache* const> caches, const Results& results,
                       std::span<double> phase_seconds) {
  SLIP_CHECK(rows.size() <= static_cast<size_t>(options_.max_rows));
  program_ = &program;
  rows_ = static_cast<int>(rows.size());
  write_inputs(rows);
  write_state(rows, caches);
  logits_ = results.logits;
  stream_ = input_;
  pending_ = {};
  done_ = false;
  for (size_t i = 0; i < program.phases.size() && !done_; ++i) {
    if (phase_seconds.empty()) {
      phase(program.phases[i]);
      continue;
    }
    gpu_.mark(0);
    phase(program.phases[i]);
    gpu_.mark(1);
    gpu_.finish();
    phase_seconds[i] += gpu_.seconds_between(0, 1);
  }
  read_results(program, rows.size(), results);
}

/// Embeddings and such: what the host looks up for every row.
void WideExecutor::write_inputs(std::span<const InputRow> rows) {
  auto* input = reinterpret_cast<float*>(host_input_.data());
  const auto count = static_cast<int64_t>(rows.size());
  ThreadPool& pool = *options_.pool;
  pool.run([&](int thread) {
    Readers& readers = readers_[static_cast<size_t>(thread)];
    for (int64_t i = pool.next(thread, count); i >= 0; i = pool.next(thread, count))
      write_input(rows[static_cast<size_t>(i)], readers, input + i * input_.stride);
    pool.barrier();
  });
  gpu_.to_device(reinterpret_cast<std::byte*>(input_.data), host_input_.data(),
                 rows.size() * static_cast<size_t>(input_.stride) * sizeof(float));
}

void WideExecutor::write_input(const InputRow& row, Readers& readers, float* input) const {
  if (row.soft != nullptr) {
    std::memcpy(input, row.embedding(), static_cast<size_t>(config_.hidden) * sizeof(float));
  } else {
    readers.embed.floats(config_.embedding_row(row.token), input);
    for (int i = 0; i < config_.hidden; ++i) input[i] *= config_.embed_scale;
  }
  if (table_cols_ == 0) return;
  const int id = row.soft != nullptr ? config_.pad_id : config_.embedding_row(row.token);
  readers.table.floats(id, input + padded(config_.hidden));
}

void WideExecutor::write_state(std::span<const InputRow> rows, std::span<const kv::Cache* const> caches) {
  table_entries_ = 0;
  all_ = add_rows(rows, caches, false, 0);
  kept_ = add_rows(rows, caches, true, options_.max_rows);
  outputs_ = kept_.device.rows;
  active_ = &all_;
  const auto used = static_cast<size_t>(
      reinterpret_cast<std::byte*>(host_state_.pages->pages + table_entries_) - host_state_memory_.data());
  gpu_.to_device(reinterpret_cast<std::byte*>(device_state_.row), host_state_memory_.data(), used);
}

/// All rows, or those with output, from place `first` of the state on. All rows come first: they bring the pages.
WideExecutor::Rows WideExecutor::add_rows(std::span<const InputRow> rows,
                                          std::span<const kv::Cache* const> caches, bool outputs, int first) {
  StepRow* row_to = host_state_.row + first;
  RowGroup* group_to = host_state_.group + first;
  int count = 0, groups = 0, last = -1;
  for (size_t n = 0; n < rows.size(); ++n) {
    const InputRow& row = rows[n];
    if (outputs && !row.output) continue;
    if (row.cache != last) {
      RowGroup& group = group_to[groups++];
      group = {.first = count, .count = 0, .pages = {}, .first_key = {}, .end_key = {}};
      if (outputs) {
        const RowGroup& same = host_state_.group[host_state_.row[n].group];
        std::copy_n(same.pages, 2, group.pages);
      } else {
        table_entries_ += write_pages(*caches[static_cast<size_t>(row.cache)], host_state_.pages->pages,
                                      table_entries_, group);
      }
      last = row.cache;
    }
    ++group_to[groups - 1].count;
    if (outputs) host_state_.outputs[count] = static_cast<int>(n);
    row_to[count++] = {.position = row.position,
                       .group = groups - 1,
                       .first = {row.sliding.first, row.full.first},
                       .end = {row.sliding.end, row.full.end}};
  }
  return {.device = {.rows = count,
                     .groups = groups,
                     .row = device_state_.row + first,
                     .group = device_state_.group + first},
          .groups = {group_to, static_cast<size_t>(groups)}};
}

void WideExecutor::read_results(const model::Program& program, size_t rows, const Results& results) {
  if (outputs_ > 0) {
    gpu_.to_host(host_hidden_.data(), reinterpret_cast<const std::byte*>(hidden_.data),
                 static_cast<size_t>(outputs_) * static_cast<size_t>(hidden_.stride) * sizeof(float));
  }
  if (!program.taps.empty()) {
    gpu_.to_host(results.taps, reinterpret_cast<const std::byte*>(taps_.data),
                 rows * static_cast<size_t>(taps_.stride) * sizeof(float));
  }
  gpu_.finish();
  const auto cols = static_cast<size_t>(config_.hidden);
  const auto* hidden = reinterpret_cast<const float*>(host_hidden_.data());
  for (size_t n = 0; n < static_cast<size_t>(outputs_); ++n)
    std::memcpy(results.hidden + n * cols, hidden + n * static_cast<size_t>(hidden_.stride),
                cols * sizeof(float));
}

}  // namespace slip::backend::cuda
