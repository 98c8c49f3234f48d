#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backend/cuda/cuda_drafters.h"
#include "backend/cuda/executor.h"
#include "base/check.h"

namespace slip::backend::cuda {

namespace {

/// The target's table on the device, where its head is the table and packed as one.
const PackedMatrix* table_of(const DraftHost& host) {
  const bool tied = !host.weights->head.present() && host.device_weights->head.present();
  const bool few = host.config->placeholder_ids.size() <= size_t{NextDraftJob::kMostPlaceholders};
  return tied && few ? &host.device_weights->head : nullptr;
}

class CudaAssistant final : public Assistant {
 public:
  CudaAssistant(const DraftHost& host, const model::AssistantConfig& config,
                const model::AssistantWeights& weights, const DraftOptions& options)
      : config_(config),
        span_(config.text.window + options.extra_keys),
        program_(model::assistant_program(config, weights)),
        weights_(load_weights({*host.gpu, *host.pool, host.options->rows_as}, config, weights)),
        executor_({.program = &program_,
                   .weights = &weights_,
                   .kv_config = host.config,
                   .kv_weights = host.weights,
                   .kv_device_weights = host.device_weights,
                   .layout = host.layout,
                   .embed_config = host.config,
                   .embed_weights = host.weights,
                   .head = &weights_.head,
                   .table = table_of(host),
                   .assistant = &config_,
                   .assistant_weights = &weights},
                  *host.gpu, *host.options, std::min(options.max_rows, kMaxRows)),
        input_(options.max_rows) {}

  const model::AssistantConfig& config() const override { return config_; }
  int max_rows() const override { return executor_.max_rows(); }

  Output step(std::span<const AssistantRow> rows) override {
    input_.set_rows(rows, span_);
    return executor_.run(program_, input_.rows(), input_.caches());
  }

  std::span<const Output> chain(std::span<const AssistantRow> rows, int depth) override {
    chained_ = executor_.chains() && std::all_of(rows.begin(), rows.end(), [](const AssistantRow& row) {
                 return row.candidates > 0 && row.draw != nullptr;
               });
    if (!chained_) return Assistant::chain(rows, depth);
    input_.set_rows(rows, span_);
    const int steps = std::clamp(depth, 1, kMostChain);
    for (size_t i = 0; i < rows.size(); ++i) drawings_[i] = drawing_of(*rows[i].draw, config_.text.vocab);
    executor_.run_chain(program_, input_.rows(), input_.caches(), {drawings_.data(), rows.size()}, steps);
    for (int i = 0; i < steps; ++i) {
      outputs_[static_cast<size_t>(i)] = {.rows = static_cast<int>(rows.size()),
                                          .best = executor_.chain_best(i)};
    }
    return {outputs_.data(), static_cast<size_t>(steps)};
  }
  const float* hidden_after(size_t step, size_t row) override {
    if (!chained_) return Assistant::hidden_after(step, row);
    return executor_.chain_hidden(static_cast<int>(step), static_cast<int>(row));
  }

  size_t streamed_bytes() const override { return program_.streamed_bytes(); }
  size_t resident_bytes() const override { return weights_.bytes(); }

 private:
  const model::AssistantConfig config_;
  const int span_;  // keys a sliding layer sees
  const model::Program program_;
  const DeviceWeights weights_;
  Executor executor_;
  InputRows input_;
  std::array<Drawing, kMaxRows> drawings_;
  std::array<Output, kMostChain> outputs_;
  bool chained_ = false;  // the last chain was one on the device
};

}  // namespace

std::unique_ptr<Assistant> make_assistant(const DraftHost& host, const model::AssistantConfig& config,
                                          const model::AssistantWeights& weights,
                                          const DraftOptions& options) {
  return std::make_unique<CudaAssistant>(host, config, weights, options);
}

/// See sample/filters.cpp and sample/weight.h, whose arithmetic this prepares.
Drawing drawing_of(const DrawRule& rule, int vocab) {
  static_assert(DrawRule::kMostSuppressed == Drawing::kMostSuppressed);
  const bool greedy = rule.temperature == 0;
  Drawing drawing{};
  drawing.inverse_temperature = greedy ? 0 : 1.0 / rule.temperature;
  drawing.scale = static_cast<float>(drawing.inverse_temperature);
  drawing.top_k = greedy ? 1 : rule.top_k;
  drawing.top_p = greedy ? 1 : rule.top_p;
  drawing.lowest_x = std::log(greedy ? 0.0 : static_cast<double>(rule.min_p));
  drawing.quantum = static_cast<double>(std::bit_ceil(static_cast<uint32_t>(std::max(vocab, 2)))) * 0.75;
  drawing.seed = rule.seed;
  drawing.position = rule.position;
  drawing.suppressed_count = rule.suppressed_count;
  std::copy(rule.suppressed.begin(), rule.suppressed.end(), drawing.suppressed);
  return drawing;
}

}  // namespace slip::backend::cuda
