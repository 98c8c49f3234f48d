// Executor: the phases of the Program on the CPU. All threads walk the list together; inside a phase, work is
// dealt out in pieces whose result does not depend on who does them, and a barrier ends every piece that
// others read. No memory is taken after construction. executor.cpp has the walk and the dense phases,
// attend_phase.cpp attention, experts_phase.cpp the mixture of experts.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/packed_weights.h"
#include "backend/cpu/rows.h"
#include "base/thread_pool.h"
#include "model/program.h"

namespace slip::backend::cpu {

class Executor {
 public:
  Executor(const model::Program& program, const PackedWeights& packed, ThreadPool& pool,
           const CpuOptions& options, const kv::Layout& layout);

  Output run(const Batch& batch);

  std::function<void(const model::Phase&, const float*, int64_t rows, int64_t cols, int64_t stride)> observe;

 private:
  /// A batch row still under way: its place in the caches, and the angles of its position.
  struct ActiveRow {
    int position;
    int sequence;
    int batch_row;
  };
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
  void embed(int thread);
  void per_layer_inputs(int thread);
  void qkv(int layer, int thread);
  void finish_heads(int layer, int row) const;
  void keep_outputs(int thread);
  void attention_out(int layer, int thread);
  void gate_up(int layer, int thread);
  void down(int layer, int thread);
  void per_layer_mix(int layer, int thread);
  void head(int thread);
  void show(const model::Phase& phase) const;

  // attend_phase.cpp
  void attend(int layer, int thread);
  void attend_blocks_whole(int layer, int thread);
  void attend_blocks_by_page(int layer, int thread);
  void attend_block_page(int layer, const RowBlock& block, int kv_head, int64_t page, float* partials,
                         float* scratch) const;
  void plan_row_blocks(int layer);
  int first_key(int layer, int position) const;
  void plan_attention_memory(Carver& carver);

  // experts_phase.cpp
  void route(int layer, int row);
  void sort_choices();
  void experts(int layer, int thread);
  void add_experts(int layer, int row) const;

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
                const MatmulOptions& options = {}, bool exact = false);
  /// Panels one piece of a product has: about 128 KiB of weights, so that a stream runs long enough for the
  /// prefetcher and the last pieces still even out between threads.
  static int64_t panels_per_piece(const PackedMatrix& matrix);

  const model::LayerConfig& layer_config(int layer) const {
    return config_.layers[static_cast<size_t>(layer)];
  }
  const model::LayerWeights& layer_weights(int layer) const {
    return weights_.layers[static_cast<size_t>(layer)];
  }
  const PackedLayer& packed_layer(int layer) const { return packed_.layers[static_cast<size_t>(layer)]; }

  const model::Program& program_;
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

  // Angles: per active row for each kind of layer, and per page for rebuilding keys where K = V.
  struct Angles {
    int pairs = 0;
    float* cosines = nullptr;  // [max_rows][pairs]
    float* sines = nullptr;
    float* page_cosines = nullptr;  // [kPagePositions][pairs], only where K = V
    float* page_sines = nullptr;
    float* base_cosines = nullptr;  // [pages][pairs], turning back by the page's first position
    float* base_sines = nullptr;
  };
  Angles plan_angles(Carver& carver, model::LayerKind kind) const;
  void fill_page_angles(model::LayerKind kind) const;
  void fill_row_angles(model::LayerKind kind, int row) const;
  Angles& angles(model::LayerKind kind) {
    return kind == model::LayerKind::kSliding ? sliding_angles_ : full_angles_;
  }
  const Angles& angles(model::LayerKind kind) const {
    return kind == model::LayerKind::kSliding ? sliding_angles_ : full_angles_;
  }
  const model::LayerConfig* layer_of(model::LayerKind kind) const;
  Angles sliding_angles_, full_angles_;

  // The step under way.
  const Batch* batch_ = nullptr;
  std::vector<ActiveRow> rows_;  // capacity max_rows
  int row_count_ = 0;
  bool any_output_ = false;  // a prompt chunk that wants none skips what only outputs need
  std::vector<RowBlock> blocks_;
  int block_count_ = 0;

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
