// Executor: the phases of a Program on a GPU, for up to 16 rows at a time. More rows of a model go to a
// WideExecutor, which gives every row the same bits; those of draft networks, or with a cache of floats, go
// through in pieces of 16, in order. A step is one kernel that walks a list
// (kernels/phase.h); a phase of the program is one or a few of its entries. Where a phase ends with a sum
// into the residual stream, the sum is left to the products that read the stream next, which make it up for
// themselves (kernels/stage.h). What changes from step to step lies in memory, so the list of a width is made
// once. No memory is taken after construction except for these lists, at the first step of a width.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device_weights.h"
#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/wide_executor.h"
#include "backend/input_rows.h"
#include "base/buffer.h"
#include "model/program.h"

namespace slip::backend::cuda {

/// What an executor runs. Everything is owned elsewhere and outlives it.
struct Network {
  const model::Program* program = nullptr;  // sets sizes; run() may be given another one of the same sizes
  const DeviceWeights* weights = nullptr;
  // Whose layers own the caches: the network itself, or the target of an assistant.
  const model::Config* kv_config = nullptr;
  const model::Weights* kv_weights = nullptr;
  const DeviceWeights* kv_device_weights = nullptr;
  const kv::Layout* layout = nullptr;
  // Whose table embeds tokens, and the head: the network's own, or the target's.
  const model::Config* embed_config = nullptr;
  const model::Weights* embed_weights = nullptr;
  const PackedMatrix* head = nullptr;
  // The table, packed as the head that it also is; null = only the host embeds, so there are no chains.
  const PackedMatrix* table = nullptr;
  ThreadPool* pool = nullptr;  // null = no wide passes
  // Drafters only.
  const model::AssistantConfig* assistant = nullptr;
  const model::AssistantWeights* assistant_weights = nullptr;
  const model::Vector* context_norm = nullptr;
  int context_inputs = 0;  // taps * h
};

class Executor {
 public:
  Executor(const Network& network, Gpu& gpu, const CudaOptions& options, int max_rows);

  /// The rows and caches must stay until it returns. Rows of a block that see one another ahead of their
  /// positions must come at most 16 at a time. `hidden`: whether anybody reads Output::hidden.
  Output run(const model::Program& program, std::span<const InputRow> rows,
             std::span<const kv::Cache* const> caches, bool hidden = true);
  int max_rows() const { return max_rows_; }

  /// Steps of an assistant one after another in one launch, up to kMostChain (kernels/chain.h), of up to 16
  /// rows that all want best tokens. Where that can be.
  bool chains() const { return chain_best_ != nullptr; }
  void run_chain(const model::Program& program, std::span<const InputRow> rows,
                 std::span<const kv::Cache* const> caches, std::span<const Drawing> drawings, int steps);
  /// [rows]
  const BestTokens* chain_best(int step) const;
  /// [backbone hidden] that a step of the chain left; until the next run of any kind.
  const float* chain_hidden(int step, int row);

  size_t memory_bytes() const { return memory_.size() + (wide_ != nullptr ? wide_->memory_bytes() : 0); }

  /// From now on, seconds of each phase of the network's program, and last of all how many of them the
  /// first block waited for others.
  void time_phases() { phase_seconds_.assign(network_.program->phases.size() + 1, 0.0); }
  const std::vector<double>& phase_seconds() const { return phase_seconds_; }

 private:
  /// Rows of floats on the device; or several such, whose sum is meant.
  struct Field {
    float* data = nullptr;
    int64_t stride = 0;
    int parts = 1;
    Field part(int index) const {
      return {.data = data + index * kMaxRows * stride, .stride = stride, .parts = 1};
    }
  };
  /// A sum into the stream that has not been made yet.
  struct Pending {
    bool waits = false;
    Field branch;
    const float* norm = nullptr;
    float scalar = 1;
    int tap = -1;
    Mixture mixture = {};
  };

  // executor.cpp
  /// Blocks of keys that a row can see (KeyBlocks).
  int most_blocks(model::LayerKind kind) const;
  void plan_memory(Carver& carver);
  void reserve_outputs(int outputs);
  void fill_turns();
  void make_wide();
  void run_wide(const model::Program& program, std::span<const InputRow> rows,
                std::span<const kv::Cache* const> caches, int first_row, int first_output);
  void run_piece(const model::Program& program, std::span<const InputRow> rows,
                 std::span<const kv::Cache* const> caches, int first_row, int first_output, bool hidden);

  // executor_rows.cpp
  /// Rows start on 16 bytes, and a kernel may read two floats at a time.
  static int64_t padded(int64_t cols) { return (cols + 3) / 4 * 4; }
  /// What a step needs, to the device. `drawings`: of a chain.
  void send(const model::Program& program, std::span<const InputRow> rows,
            std::span<const kv::Cache* const> caches, int first_output,
            std::span<const Drawing> drawings = {});
  void write_inputs(const model::Program& program, std::span<const InputRow> rows);
  size_t write_step(std::span<const InputRow> rows, std::span<const kv::Cache* const> caches,
                    int first_output);
  void read_outputs(const model::Program& program, std::span<const InputRow> rows, int first_row,
                    int first_output, bool hidden);
  void spread_scores(int row, int out_row);

  // phases.cpp and, for drafters, draft_phases.cpp: each adds its entries for `rows_` rows.
  StepList& list_for(const model::Program& program, int rows, bool outputs, int steps = 1);
  void build(const model::Program& program, int rows, bool outputs, int steps);
  void phase(const model::Program& program, const model::Phase& phase);
  void per_layer_inputs();
  void qkv(int layer, bool queries);
  HeadsJob heads_job(int layer, bool queries) const;
  void heads(int layer, bool queries);
  void attend_layer(int layer);
  void attention_out(int layer);
  void gate_up(int layer);
  void down(int layer);
  Mixture experts(int layer);
  void per_layer_mix(int layer);
  void head();
  Segment& add_head(Job& job, const Input& in);
  void pick_tokens();
  void draft_input();
  void draft_head();
  void next_draft();
  /// Rows of a chain's step: embeddings, and beside them the hidden states that the step before left.
  Field chain_input(int step) const { return step == 0 ? input(rows_) : chain_inputs_.part(step - 1); }
  Field chain_hiddens(int step) const;
  void context();
  void context_kv(int layer);

  Job new_job() const;
  /// The stream as input of the next product, which also makes a pending sum and keeps it.
  Input take_stream();
  bool sums_first(const Input& in) const;
  bool bunches(const PackedMatrix& expert_down) const;
  static Input plain(const Field& field, int cols);
  void add(Job& job, const PackedMatrix& matrix, const Input& in, const Field& out);
  /// Slices of a matrix times their columns of the rows, as parts of a sum.
  Field add_slices(Job& job, const PackedMatrix& matrix, const Input& in, const Field& out);
  void start(Job& job, int listed = 1);
  void leave_sum(const Field& branch, const model::Vector& norm, float scalar, int tap);
  void end_layer(int layer, const Field& branch, const model::Vector& norm);
  const Turns& turns(model::LayerKind kind) const {
    return kind == model::LayerKind::kSliding ? sliding_turns_ : full_turns_;
  }
  const model::LayerConfig& layer_config(int layer) const {
    return config_.layers[static_cast<size_t>(layer)];
  }
  const model::LayerWeights& layer_weights(int layer) const {
    return weights_.layers[static_cast<size_t>(layer)];
  }
  const DeviceLayer& device_layer(int layer) const { return device_.layers[static_cast<size_t>(layer)]; }

  const Network network_;
  const model::Config& config_;
  const model::Weights& weights_;
  const DeviceWeights& device_;
  Gpu& gpu_;
  const CudaOptions options_;
  const int max_rows_;
  int input_cols_ = 0, table_cols_ = 0;

  DeviceMemory memory_;
  // What a step needs from the host is one copy: of chains how rows draw, the inputs of its rows, each with
  // its share of the per-layer table, and the step itself. The latter is where it is whatever the number of
  // rows; their inputs end where it begins.
  Step* step_ = nullptr;
  size_t step_bytes_ = 0;
  int64_t input_stride_ = 0;
  static constexpr size_t kDrawingBytes = kMaxRows * sizeof(Drawing);
  size_t most_before_step() const {
    return kDrawingBytes + kMaxRows * static_cast<size_t>(input_stride_) * sizeof(float);
  }
  Field input(int rows) const {
    return {.data = reinterpret_cast<float*>(step_) - rows * input_stride_, .stride = input_stride_};
  }
  // Of chains: the inputs of all steps but the first; the best tokens of all steps, [step][rows].
  Field chain_inputs_;
  BestTokens* chain_best_ = nullptr;
  int chain_rows_ = 0;  // of the last one
  Field streams_[2], projected_, query_, key_, value_, attended_, activated_, per_layer_, gated_, hidden_;
  Field router_scores_, expert_activated_, expert_out_;
  Field next_hidden_, centroid_scores_, cluster_scores_, taps_;
  Field logits_;            // of rows whose best tokens are wanted
  Found* found_ = nullptr;  // of the pick: see PickJob
  uint32_t *picked_ = nullptr, *damaged_ = nullptr;
  MatrixList* list_ = nullptr;
  float* partials_ = nullptr;
  float* partial_weights_ = nullptr;
  float* shares_ = nullptr;     // of experts, [row][kMaxChosen]
  float* turn_tables_[4] = {};  // page and base of sliding layers, of full ones
  Turns sliding_turns_, full_turns_;

  PinnedMemory host_step_;  // as on the device, with what lies before it
  PinnedMemory host_logits_, host_hidden_, host_taps_, host_clusters_;
  PinnedMemory host_best_;            // [max_rows] BestTokens, of a chain [step][rows]
  DeviceMemory ordering_;             // of the tokens by cluster
  std::vector<float> out_hidden_;     // [max_rows][h], as Output has it
  std::vector<int> spread_clusters_;  // [max_rows * kept]: whose scores stand in the row's logits
  std::vector<uint8_t> spread_;       // [max_rows]: the row's logits have been set to -infinity once

  // While a list is made.
  StepList* building_ = nullptr;
  int mark_ = 0, list_number_ = 0;
  const model::Program* program_ = nullptr;
  int rows_ = 0;
  bool outputs_ = false;
  bool chain_ = false;
  int turn_ = 0;  // which step of the chain
  Field stream_;
  Pending pending_;
  Field context_;
  std::vector<double> phase_seconds_;  // empty = not timed

  int most_outputs_ = 0;
  std::map<std::tuple<const model::Program*, int, bool, int>, StepList> lists_;
  std::unique_ptr<tensor::RowReader> embed_reader_, table_reader_;
  std::unique_ptr<WideExecutor> wide_;
};

}  // namespace slip::backend::cuda
