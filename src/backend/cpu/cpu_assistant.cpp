#include <algorithm>

#include "backend/cpu/cpu_drafters.h"
#include "backend/cpu/executor.h"
#include "base/check.h"

namespace slip::backend::cpu {

namespace {

class CpuAssistant final : public Assistant {
 public:
  CpuAssistant(const DraftHost& host, const model::AssistantConfig& config,
               const model::AssistantWeights& weights, const DraftOptions& options)
      : config_(config),
        span_(config.text.window + options.extra_keys),
        program_(model::assistant_program(config, weights)),
        packed_(pack_weights(config, weights, *host.pool)),
        executor_({.program = &program_,
                   .packed = &packed_,
                   .kv_config = host.config,
                   .kv_weights = host.weights,
                   .layout = host.layout,
                   .embed_config = host.config,
                   .embed_weights = host.weights,
                   .head = &packed_.head,
                   .assistant = &config_,
                   .assistant_weights = &weights},
                  *host.pool, *host.options, options.max_rows),
        input_(options.max_rows) {}

  const model::AssistantConfig& config() const override { return config_; }
  int max_rows() const override { return executor_.max_rows(); }

  Output step(std::span<const AssistantRow> rows) override {
    input_.set_rows(rows, span_);
    return executor_.run(program_, input_.rows(), input_.caches());
  }

  size_t streamed_bytes() const override { return program_.streamed_bytes(); }
  size_t resident_bytes() const override { return packed_.memory.size(); }

 private:
  const model::AssistantConfig config_;
  const int span_;  // keys a sliding layer sees
  const model::Program program_;
  const PackedWeights packed_;
  Executor executor_;
  InputRows input_;
};

}  // namespace

std::unique_ptr<Assistant> make_assistant(const DraftHost& host, const model::AssistantConfig& config,
                                          const model::AssistantWeights& weights,
                                          const DraftOptions& options) {
  return std::make_unique<CpuAssistant>(host, config, weights, options);
}

}  // namespace slip::backend::cpu
