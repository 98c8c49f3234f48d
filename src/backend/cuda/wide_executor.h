// WideExecutor: the phases of a decoder's Program for passes of more than 16 rows, a prompt's: every phase is
// a few kernels over all rows (kernels/wide_job.h), started one after another. Rows have the bits that the
// Executor gives them 16 at a time. Rows that want no output leave where the program says, the others move to
// the front. All memory is taken at construction: about 130 KiB per row for a small model, 600 KiB for a
// large one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/device_weights.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/wide_job.h"
#include "backend/input_rows.h"
#include "base/buffer.h"
#include "base/thread_pool.h"
#include "model/program.h"

namespace slip::backend::cuda {

class WideExecutor {
 public:
  struct Options {
    const model::Program* program = nullptr;  // sets sizes
    const DeviceWeights* weights = nullptr;
    const kv::Layout* layout = nullptr;
    const PackedMatrix* head = nullptr;
    Turns sliding_turns, full_turns;
    ThreadPool* pool = nullptr;  // for what the host looks up
    int max_rows = 0;            // of one pass
  };
  WideExecutor(const Options& options, Gpu& gpu);

  /// Where a pass leaves its results: all in the host's memory, the logits in memory that the device writes.
  struct Results {
    float* logits = nullptr;  // [output][vocab]
    float* hidden = nullptr;  // [output][h]
    float* taps = nullptr;    // [row][taps * h], where the program has taps
  };
  /// Up to max_rows() rows, done when it returns. `phase_seconds`: per phase, added to; empty = not timed.
  void run(const model::Program& program, std::span<const InputRow> rows,
           std::span<const kv::Cache* const> caches, const Results& results, std::span<double> phase_seconds);
  int max_rows() const { return options_.max_rows; }
  size_t memory_bytes() const { return memory_.size(); }

 private:
  struct Field {
    float* data = nullptr;
    int64_t stride = 0;
    int parts = 1;
  };
  /// A sum into the stream that has not been made yet.
  struct Pending {
    bool waits = false;
    Field branch;
    const float* norm = nullptr;
    float scalar = 1;
    int tap = -1;
  };
  /// Rows and groups as kernels see them; `units` of attention are counted by the host's copy.
  struct Rows {
    WideRows device;
    std::span<const RowGroup> groups;
  };
  struct Readers {
    tensor::RowReader embed, table;
  };
  static constexpr int kRegions = 3;  // of staged rows

  // wide_executor.cpp
  void plan_memory(Carver& carver);
  void plan_staged(Carver& carver);
  void plan_state(Carver& carver, bool host);
  void write_inputs(std::span<const InputRow> rows);
  void write_input(const InputRow& row, Readers& readers, float* input) const;
  void write_state(std::span<const InputRow> rows, std::span<const kv::Cache* const> caches);
  Rows add_rows(std::span<const InputRow> rows, std::span<const kv::Cache* const> caches, bool outputs,
                int first);
  void read_results(const model::Program& program, size_t rows, const Results& results);

  // wide_phases.cpp
  void phase(const model::Phase& phase);
  void per_layer_inputs();
  void qkv(int layer);
  void keep_outputs();
  void attend(int layer);
  void attention_out(int layer);
  void gate_up(int layer);
  void down(int layer);
  void experts(int layer);
  void per_layer_mix(int layer);
  void head();

  Input take_stream();
  Input plain(const Field& field, int cols) const;
  WideStage new_stage(const Input& in, bool normed) const;
  /// Rows for a matrix, in a region of staged rows; returns the region, an earlier one where that will do.
  int stage_for(WideStage& stage, const PackedMatrix& matrix, const float* norm, float norm_scale = 1);
  WideProduct product(const PackedMatrix& matrix, const WideStage& stage, int target, const Field& out) const;
  void leave_sum(const Field& branch, const model::Vector& norm, float scalar, int tap);
  void end_layer(int layer, const Field& branch, const model::Vector& norm);
  HeadsJob heads_job(int layer, bool queries) const;
  const model::LayerConfig& layer_config(int layer) const {
    return config_.layers[static_cast<size_t>(layer)];
  }
  const model::LayerWeights& layer_weights(int layer) const {
    return weights_.layers[static_cast<size_t>(layer)];
  }
  const DeviceLayer& device_layer(int layer) const { return device_.layers[static_cast<size_t>(layer)]; }

  const Options options_;
  const model::Config& config_;
  const model::Weights& weights_;
  const DeviceWeights& device_;
  Gpu& gpu_;
  int table_cols_ = 0;
  size_t most_pages_ = 0;

  DeviceMemory memory_;
  Field input_, table_;  // rows of the host, side by side
  Field streams_[2], projected_, query_, key_, value_, attended_, activated_, per_layer_, gated_, hidden_,
      taps_;
  Field router_scores_, expert_activated_, expert_out_;
  float* factors_ = nullptr;
  WideChoices choices_;
  std::byte* staged_[kRegions] = {};
  std::byte* staged_pairs_ = nullptr;

  /// What the host says about a pass, in its memory and on the device.
  struct State {
    StepRow* row = nullptr;     // [2 * max_rows]: all, then those with output
    RowGroup* group = nullptr;  // [2 * max_rows]
    int* outputs = nullptr;     // [max_rows]: rows with output
    Step* pages = nullptr;      // only its pages are used
    size_t bytes = 0;
  };
  State host_state_, device_state_;
  PinnedMemory host_input_, host_state_memory_, host_hidden_, host_taps_;
  std::vector<Readers> readers_;  // of each thread

  // Of the pass under way.
  const model::Program* program_ = nullptr;
  Rows all_, kept_;
  const Rows* active_ = nullptr;
  int rows_ = 0, outputs_ = 0;
  int table_entries_ = 0;
  bool done_ = false;
  float* logits_ = nullptr;
  Field stream_;
  Pending pending_;
};

}  // namespace slip::backend::cuda
