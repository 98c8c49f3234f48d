#include <algorithm>

#include "backend/cuda/cuda_drafters.h"
#include "backend/cuda/executor.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cuda {

namespace {

class CudaBlockDrafter final : public BlockDrafter {
 public:
  CudaBlockDrafter(const DraftHost& host, const model::DflashConfig& config,
                   const model::DflashWeights& weights, const DraftOptions& options)
      : config_(config),
        taps_((static_cast<int>(config.taps.size())) * config.text.hidden),
        context_program_(model::dflash_context_program(config, weights)),
        block_program_(model::dflash_block_program(config, weights, host.weights->output_head())),
        weights_(load_weights({*host.gpu, *host.pool, host.options->rows_as}, config, weights)),
        // Context comes in the target's steps, blocks in ours.
        max_rows_(std::max(options.max_rows, host.options->max_rows)),
        layout_(config.text, host.options->kv_storage, max_rows_),
        pages_(*host.pages),
        classes_(kv::add_classes(pages_, layout_)),
        executor_({.program = &block_program_,
                   .weights = &weights_,
                   .kv_config = &config_.text,
                   .kv_weights = &weights.text,
                   .kv_device_weights = &weights_,
                   .layout = &layout_,
                   .embed_config = host.config,
                   .embed_weights = host.weights,
                   .head = &host.device_weights->head,
                   .context_norm = &weights.context_norm,
                   .context_inputs = taps_},
                  *host.gpu, *host.options, max_rows_),
        input_(max_rows_) {
    // The rows of a block see one another, so they must pass together.
    if (config.block > kMaxRows) {
      fail(ErrorKind::kRuntime, "the CUDA kernels take blocks of up to {} rows, and this drafter has {}",
           kMaxRows, config.block);
    }
  }

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
    const Output output = executor_.run(block_program_, input_.rows(), input_.caches(), false);
    for (const Block& block : blocks) block.cache->commit(0);
    return output;
  }

  size_t streamed_bytes() const override { return block_program_.streamed_bytes(); }
  size_t resident_bytes() const override { return weights_.bytes(); }

 private:
  const model::DflashConfig config_;
  const int taps_;
  const model::Program context_program_, block_program_;
  const DeviceWeights weights_;
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
  return std::make_unique<CudaBlockDrafter>(host, config, weights, options);
}

}  // namespace slip::backend::cuda
