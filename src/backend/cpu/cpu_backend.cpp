#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <string>

#include "backend/cpu/bandwidth.h"
#include "backend/cpu/cpu_drafters.h"
#include "backend/cpu/executor.h"
#include "backend/cpu/packed_weights.h"
#include "backend/cpu/vision_encoder.h"
#include "base/check.h"

namespace slip::backend::cpu {

namespace {

const char* activation_text(ActivationMode mode) {
  switch (mode) {
    case ActivationMode::kFloat: return ", float activations";
    case ActivationMode::kInt8: return ", 8-bit activations";
    case ActivationMode::kInt16: return ", 16-bit activations (8 in the head)";
  }
  return "";
}

class CpuBackend final : public ObservableBackend {
 public:
  CpuBackend(const model::Config& config, const model::Weights& weights, const CpuOptions& options)
      : options_(options),
        program_(model::build_program(config, weights)),
        pool_(options.threads > 0 ? options.threads : default_threads()),
        packed_(pack_weights(config, weights, pool_, options.progress)),
        layout_(config, options.kv_storage, options.max_rows),
        classes_(kv::add_classes(pages_, layout_)),
        input_(options.max_rows) {
    make_executor();
  }

  const model::Config& config() const override { return program_.config; }
  int max_rows() const override { return options_.max_rows; }
  const kv::Layout& kv_layout() const override { return layout_; }
  kv::PagePool& pages() override { return pages_; }
  std::unique_ptr<kv::Cache> new_cache() override {
    return std::make_unique<kv::Cache>(layout_, pages_, classes_);
  }

  Output run(const Batch& batch) override {
    input_.set_rows(batch, program_.config.window);
    executor_->observe = observe;
    return executor_->run(program_, input_.rows(), input_.caches());
  }

  void set_taps(std::span<const int> layers) override {
    for (const int layer : layers) SLIP_CHECK(layer >= 0 && layer < program_.config.layer_count());
    program_ = model::build_program(program_.config, *program_.weights, {layers.begin(), layers.end()});
    make_executor();
  }

  std::unique_ptr<Assistant> load_assistant(const model::AssistantConfig& config,
                                            const model::AssistantWeights& weights,
                                            const DraftOptions& options) override {
    layout_.keep_extra(options.extra_keys);
    return make_assistant(host(), config, weights, options);
  }
  std::unique_ptr<BlockDrafter> load_dflash(const model::DflashConfig& config,
                                            const model::DflashWeights& weights,
                                            const DraftOptions& options) override {
    return make_block_drafter(host(), config, weights, options);
  }

  std::unique_ptr<Encoder> load_vision(const model::VisionConfig& config,
                                       const model::VisionWeights& weights) override {
    return cpu::load_vision(pool_, options_, config, weights);
  }

  size_t streamed_bytes() const override { return program_.streamed_bytes(); }
  size_t resident_bytes() const override { return packed_.memory.size(); }
  double measure_read_bandwidth() override {
    return cpu::measure_read_bandwidth(pool_, {packed_.memory.data(), packed_.memory.size()});
  }

  void time_phases() override { executor_->time_phases(); }
  std::vector<PhaseTime> phase_times() const override {
    return phase_times_of(program_, executor_->phase_seconds());
  }

  std::string description() const override {
    std::string text = "cpu, " + std::to_string(pool_.size()) +
                       (pool_.size() == 1 ? " thread, " : " threads, ") + kernel_target();
    if (packed_.any_affine) text += activation_text(options_.activations);
    return text + (options_.kv_storage == kv::Storage::kBf16 ? ", bf16 KV" : ", f32 KV");
  }

 private:
  void make_executor() {
    const Network network{.program = &program_,
                          .packed = &packed_,
                          .kv_config = &program_.config,
                          .kv_weights = program_.weights,
                          .layout = &layout_,
                          .embed_config = &program_.config,
                          .embed_weights = program_.weights,
                          .head = &packed_.head};
    executor_.reset();  // its memory first
    executor_ = std::make_unique<Executor>(network, pool_, options_, options_.max_rows);
  }
  DraftHost host() {
    return {.config = &program_.config,
            .weights = program_.weights,
            .packed = &packed_,
            .layout = &layout_,
            .pages = &pages_,
            .pool = &pool_,
            .options = &options_};
  }

  CpuOptions options_;
  model::Program program_;
  ThreadPool pool_;
  PackedWeights packed_;
  kv::Layout layout_;
  kv::PagePool pages_;
  kv::PageClasses classes_;
  std::unique_ptr<Executor> executor_;
  InputRows input_;
};

}  // namespace

std::unique_ptr<Backend> load(const model::Config& config, const model::Weights& weights,
                              const CpuOptions& options) {
  return std::make_unique<CpuBackend>(config, weights, options);
}

std::unique_ptr<ObservableBackend> load_observable(const model::Config& config, const model::Weights& weights,
                                                   const CpuOptions& options) {
  return std::make_unique<CpuBackend>(config, weights, options);
}

}  // namespace slip::backend::cpu
