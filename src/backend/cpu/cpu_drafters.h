// Draft networks on the CPU: they run on the executor of the model (executor.h) with programs of their own,
// on the target's threads, and borrow its embedding, head or caches.
#pragma once

#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/packed_weights.h"
#include "backend/drafting.h"
#include "base/thread_pool.h"

namespace slip::backend::cpu {

/// What drafters borrow from the target's backend, which outlives them.
struct DraftHost {
  const model::Config* config = nullptr;
  const model::Weights* weights = nullptr;
  const PackedWeights* packed = nullptr;
  const kv::Layout* layout = nullptr;
  kv::PagePool* pages = nullptr;
  ThreadPool* pool = nullptr;
  const CpuOptions* options = nullptr;
};

std::unique_ptr<Assistant> make_assistant(const DraftHost& host, const model::AssistantConfig& config,
                                          const model::AssistantWeights& weights,
                                          const DraftOptions& options);
std::unique_ptr<BlockDrafter> make_block_drafter(const DraftHost& host, const model::DflashConfig& config,
                                                 const model::DflashWeights& weights,
                                                 const DraftOptions& options);

}  // namespace slip::backend::cpu
