// Executor: the phases of a Program on the CPU. All threads walk the list together; inside a phase, work is
// dealt out in chunks whose result does not depend on who does them, and a barrier ends every chunk that
// others read. No memory is taken after construction. It runs the model itself and the draft networks beside
// it, which differ in their programs only. executor.cpp has the walk, layer_phases.cpp what every layer does,
// attend_phase.cpp attention, experts_phase.cpp the mixture of experts, draft_phases.cpp what only drafters
// do.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/packed_weights.h"
#include "backend/cpu/rotary.h"
#include "backend/cpu/rows.h"
#include "backend/input_rows.h"
#include "base/thread_pool.h"
#include "model/program.h"

namespace slip::backend::cpu {

/// What an executor runs. Everything is owned elsewhere and outlives it.
struct Network {
  const model::Program* program = nullptr;  // sets sizes; run() may be given another one of the same sizes
  const PackedWeights* packed = nullptr;
  // Whose layers own the caches: the network itself, or the target of an assistant.
  const model::Config* kv_config = nullptr;
  const model::Weights* kv_weights = nullptr;
  const kv::Layout* layout = nullptr;
  // Whose table embeds tokens, and the head: the network's own, or the target's.
  const model::Config* embed_config = nullptr;
  const model::Weights* embed_weights = nullptr;
  const PackedMatrix* head = nullptr;
  // Drafters only.
  const model::AssistantConfig* assistant = nullptr;
  const model::AssistantWeights* assistant_weights = nullptr;
  const float* context_norm = nullptr;  // [h]
  int context_inputs = 0;               // taps * h
};

class Executor {
 public:
  Executor(const Network& network, ThreadPool& pool, const CpuOptions& options, int max_rows);

  /// The rows and caches must stay until it returns. Rows are written to the slots of their positions.
  Output run(const model::Program& program, std::span<const InputRow> rows,
             std::span<const kv::Cache* const> caches);
  int max_rows() const { return max_rows_; }

  /// Seconds of each phase of the program since the call, as thread 0 saw them.
  void time_phases() { phase_seconds_.assign(network_.program->phases.size(), 0.0); }
  const std::vector<double>& phase_seconds() const { return phase_seconds_; }

  std::function<void(const model::Phase&, const float*, int64_t rows, int64_t cols, int64_t stride)> observe;

 private:
  /// Consecutive active rows of one sequence, few enough to pass over a page of keys together.
  struct RowBlock {
    int first;
    int count;
  };
  /// A row's choice of one expert, sorted by expert for the passes over the experts' weights.
  struct Choice {
    int expert;
    int row;
    int slot;
  };
  struct ExpertSpan {
    int expert;
    int begin;  // into the sorted choices
    int end;
  };

  // executor.cpp
  void plan_memory(Carver& carver);
  void walk(int thread);
  void phase(const model::Phase& phase, int thread);
  void show(const model::Phase& phase) const;

  // layer_phases.cpp
  void embed_row(int row, int thread, float* out) const;
  void embed(int thread);
  void per_layer_inputs(int thread);
  void qkv(int layer, int thread);
  void finish_queries(int layer, int row) const;
  void store_kv(int layer, int row) const;
  void keep_outputs(int thread);
  void attention_out(int layer, int thread);
  void gate_up(int layer, int thread);
  void down(int layer, int thread);
  void per_layer_mix(int layer, int thread);
  void add_branch(const std::vector<float>& norm, int row) const;
  void end_layer(int layer, int row) const;
  void head(int thread);

  /// How a layer's attention is dealt out. Every thread plans for itself, the same way: cheaper than waiting
  /// for one to do it.
  struct AttentionPlan {
    std::span<const RowBlock> blocks;
    int parts;  // of the query heads that share a kv head
    int group;  // query heads of a part
    int units;  // kv heads * parts: heads [unit * group, (unit + 1) * group) read kv head unit / parts
  };

  // attend_phase.cpp
  void attend(int layer, int thread);
  void attend_blocks_whole(int layer, const AttentionPlan& plan, int thread);
  void attend_blocks_by_page(int layer, const AttentionPlan& plan, int thread);
  void attend_block_page(int layer, const AttentionPlan& plan, const RowBlock& block, int unit, int64_t page,
                         float* partials, float* scratch) const;
  AttentionPlan plan_attention(int layer, int thread);
  int64_t pages_of(int layer, const RowBlock& block) const;
  /// Heads are whole rounding blocks, so that they can be rounded one by one.
  bool finishes_heads(int layer) const { return layer_config(layer).head_dim % kQuantBlock == 0; }
  void finish_head(int layer, const float* state, int row, int head) const;
  const KeySpan& keys(int layer, int row) const;
  void plan_attention_memory(Carver& carver);

  // experts_phase.cpp
  void route(int layer, int row);
  void sort_choices();
  void experts(int layer, int thread);
  void add_experts(int layer, int row) const;

  // draft_phases.cpp
  void draft_input(int thread);
  void draft_head(int thread);
  void choose_clusters(int row);
  void score_clusters(int thread);
  void spread_scores(int row);
  void context(int thread);
  void context_kv(int layer, int thread);

  /// Deals out 0 .. count - 1 and waits for all to finish.
  template <typename F>
  void parallel(int thread, int64_t count, F work) {
    for (int64_t i = pool_.next(thread, count); i >= 0; i = pool_.next(thread, count)) work(i);
    pool_.barrier();
  }
  /// One thread does it, all wait.
  template <typename F>
  void once(int thread, F work) {
    if (thread == 0) work();
    pool_.barrier();
  }
  /// out rows = matrix * input rows, for several matrices that read the same rows; ends with a barrier.
  struct Product {
    const PackedMatrix* matrix;
    const Rows* out;
    int64_t panels = -1;  // the first so many; -1 = all
  };
  void multiply(std::initializer_list<Product> products, const Rows& input, int thread,
                const MatmulOptions& options = {});
  /// Panels one chunk of a product has: about 128 KiB of weights, so that a stream runs long enough for the
  /// prefetcher and the last chunks still even out between threads.
  static int64_t panels_per_chunk(const PackedMatrix& matrix);
  /// The same for a pair of matrices whose product is rounded as soon as it is there: whole rounding blocks.
  static int64_t gated_panels_per_chunk(const PackedMatrix& gate);

  const InputRow& active(int row) const {
    return step_rows_[static_cast<size_t>(rows_[static_cast<size_t>(row)])];
  }
  const model::LayerConfig& layer_config(int layer) const {
    return config_.layers[static_cast<size_t>(layer)];
  }
  const model::LayerWeights& layer_weights(int layer) const {
    return weights_.layers[static_cast<size_t>(layer)];
  }
  const PackedLayer& packed_layer(int layer) const { return packed_.layers[static_cast<size_t>(layer)]; }

  const Network network_;
  const model::Config& config_;
  const model::Weights& weights_;
  const PackedWeights& packed_;
  ThreadPool& pool_;
  const kv::Layout& layout_;
  const int max_rows_;
  const ActivationMode mode_;

  Buffer memory_;
  Rows stream_, normed_, per_layer_, per_layer_table_, query_, key_, value_, attended_, activated_,
      projected_, gated_, hidden_;
  Rows routed_, router_scores_, expert_input_, expert_activated_, expert_out_;
  Rows logits_;

  const Rotary& rotary(model::LayerKind kind) const {
    return kind == model::LayerKind::kSliding ? sliding_rotary_ : full_rotary_;
  }
  Rotary sliding_rotary_, full_rotary_;

  // Drafters: the step's input, scores of centroids, scores of the tokens in the clusters chosen.
  Rows paired_, centroid_scores_, cluster_scores_, next_hidden_, taps_in_;
  std::vector<int> clusters_;  // [max_rows * kept], ascending per row
  std::vector<Column> cluster_columns_;
  std::vector<int> spread_clusters_;  // [max_rows * kept]: whose scores stand in the row's logits
  std::vector<uint8_t> spread_;       // [max_rows]: the row's logits have been set to -infinity once

  std::vector<double> phase_seconds_;  // empty = not timed

  // What the taps put out, [max_rows][taps * h].
  float* taps_ = nullptr;

  // The step under way.
  const model::Program* program_ = nullptr;
  std::span<const InputRow> step_rows_;
  std::span<const kv::Cache* const> caches_;
  std::vector<int> rows_;  // active rows as indices into step_rows_; capacity max_rows
  int row_count_ = 0;
  bool any_output_ = false;  // a prompt chunk that wants none skips what only outputs need
  std::vector<std::vector<RowBlock>> thread_blocks_;  // per thread, [max_rows]

  // Attention scratch.
  std::vector<float*> thread_scratch_;   // per thread
  std::vector<float*> thread_partials_;  // per thread: [block rows * heads][2][partial]
  float* wave_partials_ = nullptr;       // [wave pages][rows * heads][partial]
  float* states_ = nullptr;              // [rows * heads][partial], narrow steps only
  size_t wave_floats_ = 0;

  // Expert scratch.
  std::vector<Choice> choices_;  // [max_rows * experts_per_token]
  std::vector<Choice> sorted_;   // the same by expert
  std::vector<float> shares_;    // [max_rows * experts_per_token]
  std::vector<ExpertSpan> spans_;
  std::vector<int> expert_counts_;
  int choice_count_ = 0, span_count_ = 0;
  std::vector<Column> expert_columns_, expert_down_columns_;

  static constexpr int kMaxProducts = 3;
  std::vector<std::vector<Column>> thread_columns_;  // per thread, [kMaxProducts * max_rows]
  std::vector<std::unique_ptr<tensor::RowReader>> embed_readers_, table_readers_;  // per thread
};

}  // namespace slip::backend::cpu
