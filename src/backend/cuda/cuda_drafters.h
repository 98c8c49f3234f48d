// Draft networks on the GPU: they run on the executor of the model (executor.h) with programs of their own,
// on the target's device, and borrow its embedding, head or caches.
#pragma once

#include <memory>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device_weights.h"
#include "backend/cuda/kernels/chain.h"
#include "backend/drafting.h"
#include "base/thread_pool.h"

namespace slip::backend::cuda {

/// What drafters borrow from the target's backend, which outlives them.
struct DraftHost {
  const model::Config* config = nullptr;
  const model::Weights* weights = nullptr;
  const DeviceWeights* device_weights = nullptr;
  const kv::Layout* layout = nullptr;
  kv::PagePool* pages = nullptr;
  Gpu* gpu = nullptr;
  ThreadPool* pool = nullptr;
  const CudaOptions* options = nullptr;
};

std::unique_ptr<Assistant> make_assistant(const DraftHost& host, const model::AssistantConfig& config,
                                          const model::AssistantWeights& weights,
                                          const DraftOptions& options);
std::unique_ptr<BlockDrafter> make_block_drafter(const DraftHost& host, const model::DflashConfig& config,
                                                 const model::DflashWeights& weights,
                                                 const DraftOptions& options);

/// What a rule comes to for a device.
Drawing drawing_of(const DrawRule& rule, int vocab);

}  // namespace slip::backend::cuda
