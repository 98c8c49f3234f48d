#include "backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/cuda_drafters.h"
#include "backend/cuda/executor.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend(const model::Config& config, const model::Weights& weights, const CudaOptions& options)
      : options_(options),
        gpu_(options.device),
        program_(model::build_program(config, weights)),
        pool_(options.threads > 0 ? options.threads : default_threads()),
        weights_(load_weights({gpu_, pool_, options.rows_as}, config, weights, options.progress)),
        layout_(config, options.kv_storage, options.max_rows),
        pages_(device_memory(gpu_)),
        classes_(kv::add_classes(pages_, layout_)),
        input_(options.max_rows) {
    make_executor();
  }

  const model::Config& config() const override { return program_.config; }
  int max_rows() const override { return options_.max_rows; }
  int narrow_rows() const override { return kMaxRows; }
  const kv::Layout& kv_layout() const override { return layout_; }
  kv::PagePool& pages() override { return pages_; }
  std::unique_ptr<kv::Cache> new_cache() override {
    return std::make_unique<kv::Cache>(layout_, pages_, classes_);
  }

  Output run(const Batch& batch) override {
    input_.set_rows(batch, program_.config.window);
    return executor_->run(program_, input_.rows(), input_.caches(), batch.hidden);
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

  size_t streamed_bytes() const override { return program_.streamed_bytes(); }
  size_t resident_bytes() const override { return weights_.bytes(); }

  double measure_read_bandwidth() override {
    constexpr size_t kEnough = size_t{2} << 30, kMost = size_t{8} << 30;
    DeviceMemory own;
    std::byte* data = weights_.matrices.data();
    size_t bytes = std::min(weights_.matrices.size(), kMost);
    if (bytes < kEnough) {
      own = DeviceMemory(kEnough, "measuring the bandwidth");
      data = own.data();
      bytes = kEnough;
    }
    DeviceMemory sink(sizeof(float), "measuring the bandwidth");
    double best = 0;
    for (int i = 0; i < 3; ++i) {
      gpu_.mark(0);
      read_memory(gpu_, data, bytes, reinterpret_cast<float*>(sink.data()));
      gpu_.mark(1);
      gpu_.finish();
      best = std::max(best, static_cast<double>(bytes) / gpu_.seconds_between(0, 1));
    }
    return best;
  }

  void time_phases() override { executor_->time_phases(); }
  std::vector<PhaseTime> phase_times() const override {
    const std::vector<double>& seconds = executor_->phase_seconds();  // the last entry: waiting
    if (seconds.empty()) return {};
    std::vector<PhaseTime> times = phase_times_of(program_, {seconds.data(), seconds.size() - 1});
    times.push_back({.name = "of these, block 0 waiting", .seconds = seconds.back(), .within = true});
    return times;
  }

  std::string description() const override {
    const Format format = weights_.layers.front().gate_up.format;
    const char* activations = format == Format::kBf16 ? ""
                              : in_halves(format)     ? "11-bit activations, "
                                                      : "16-bit activations, ";
    return fmt::format("cuda:{}, {}, {}{} KV", gpu_.device(), gpu_.info().name, activations,
                       options_.kv_storage == kv::Storage::kBf16 ? "bf16" : "f32");
  }

 private:
  /// Copies are queued in the stream of the steps, so that they take place between them.
  static kv::PageMemory device_memory(Gpu& gpu) {
    return {.allocate = [](size_t bytes, const char* what) -> std::shared_ptr<std::byte> {
              auto memory = std::make_shared<DeviceMemory>(bytes, what);
              return {memory, memory->data()};
            },
            .copy = [&gpu](std::byte* to, const std::byte* from, size_t bytes) { gpu.copy(to, from, bytes); },
            .fill = [&gpu](std::byte* to, int value, size_t bytes) { gpu.fill(to, value, bytes); },
            .side = kv::MemorySide::kDevice};
  }
  void make_executor() {
    const Network network{.program = &program_,
                          .weights = &weights_,
                          .kv_config = &program_.config,
                          .kv_weights = program_.weights,
                          .kv_device_weights = &weights_,
                          .layout = &layout_,
                          .embed_config = &program_.config,
                          .embed_weights = program_.weights,
                          .head = &weights_.head,
                          .pool = &pool_};
    executor_.reset();  // its memory first
    executor_ = std::make_unique<Executor>(network, gpu_, options_, options_.max_rows);
  }
  DraftHost host() {
    return {.config = &program_.config,
            .weights = program_.weights,
            .device_weights = &weights_,
            .layout = &layout_,
            .pages = &pages_,
            .gpu = &gpu_,
            .pool = &pool_,
            .options = &options_};
  }

  CudaOptions options_;
  Gpu gpu_;
  model::Program program_;
  ThreadPool pool_;
  DeviceWeights weights_;
  kv::Layout layout_;
  kv::PagePool pages_;
  kv::PageClasses classes_;
  std::unique_ptr<Executor> executor_;
  InputRows input_;
};

}  // namespace

std::unique_ptr<Backend> load(const model::Config& config, const model::Weights& weights,
                              const CudaOptions& options) {
  return std::make_unique<CudaBackend>(config, weights, options);
}

}  // namespace slip::backend::cuda
