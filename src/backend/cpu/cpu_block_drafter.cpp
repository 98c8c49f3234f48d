#include <algorithm>

#include "backend/cpu/cpu_drafters.h"
#include "backend/cpu/executor.h"
#include "base/check.h"

namespace slip::backend::cpu {

namespace {

class CpuBlockDrafter final : public BlockDrafter {
 public:
  CpuBlockDrafter(const DraftHost& host, const model::DflashConfig& config,
                  const model::DflashWeights& weights, const DraftOptions& options)
      : config_(config),
        taps_((static_cast<int>(config.taps.size())) * config.text.hidden),
        context_program_(model::dflash_context_program(config, weights)),
        block_program_(model::dflash_block_program(config, weights, host.weights->output_head())),
        packed_(pack_weights(config, weights, *host.pool)),
        // Context comes in the target's steps, blocks in ours.
        max_rows_(std::max(options.max_rows, host.options->max_rows)),
        layout_(config.text, host.options->kv_storage, max_rows_),
        pages_(*host.pages),
        classes_(kv::add_classes(pages_, layout_)),
        executor_({.program = &block_program_,
                   .packed = &packed_,
                   .kv_config = &config_.text,
                   .kv_weights = &weights.text,
                   .layout = &layout_,
                   .embed_config = host.config,
                   .embed_weights = host.weights,
                   .head = &host.packed->head,
                   .context_norm = weights.context_norm.data(),
                   .context_inputs = taps_},
                  *host.pool, *host.options, max_rows_),
        input_(max_rows_) {}

  const model::DflashConfig& config() const override { return config_; }
  int max_rows() const override { return max_rows_; }
  const kv::Layout& kv_layout() const override { return layout_; }
  std::unique_ptr<kv::Cache> new_cache() override {
    return std::make_unique<kv::Cache>(layout_, pages_, classes_);
  }

  void extend(std::span<const ContextRows> contexts) override {
    input_.set_rows(contexts, taps_);
    executor_.run(context_program_, input_.rows(), input_.caches());
    for (const ContextRows& context : contexts) context.cache->commit(context.count);
  }

  Output run(std::span<const Block> blocks) override {
    input_.set_rows(blocks, config_);
    const Output output = executor_.run(block_program_, input_.rows(), input_.caches());
    for (const Block& block : blocks) block.cache->commit(0);
    return output;
  }

  size_t streamed_bytes() const override { return block_program_.streamed_bytes(); }
  size_t resident_bytes() const override { return packed_.memory.size(); }

 private:
  const model::DflashConfig config_;
  const int taps_;
  const model::Program context_program_, block_program_;
  const PackedWeights packed_;
  const int max_rows_;
  const kv::Layout layout_;
  kv::PagePool& pages_;
  const kv::PageClasses classes_;
  Executor executor_;
  InputRows input_;
};

}  // namespace

std::unique_ptr<BlockDrafter> make_block_drafter(const DraftHost& host, const model::DflashConfig& config,
                                                 const model::DflashWeights& weights,
                                                 const DraftOptions& options) {
  return std::make_unique<CpuBlockDrafter>(host, config, weights, options);
}

}  // namespace slip::backend::cpu
