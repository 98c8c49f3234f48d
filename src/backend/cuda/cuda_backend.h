// The CUDA executor as a Backend: weights and caches in the memory of one GPU.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/packed_matrix.h"
#include "kv/layout.h"
#include "model/program.h"

namespace slip::backend::cuda {

struct CudaOptions {
  int device = 0;
  int threads = 0;  // of the host, for packing; 0 = one per core
  // Rows one step takes: prompts go through in passes of so many. Logits of rows that want them are kept in
  // pinned memory, a megabyte each, and every sequence's ring of sliding layers holds so many positions more.
  int max_rows = 2048;
  kv::Storage kv_storage = kv::Storage::kBf16;  // floats are slow, to compare with references
  /// What rows become that quantised weights are multiplied with; unset: halves, where no experts are chosen.
  std::optional<RowsAs> rows_as;
  /// Called while loading with the share done, 0 to 1.
  std::function<void(double)> progress;
};

/// Loads the weights and returns a ready backend. `weights` and what they view must outlive it: embedding
/// rows are read from the checkpoint as they are needed. Throws Error(kUsage) without such a device.
std::unique_ptr<Backend> load(const model::Config& config, const model::Weights& weights,
                              const CudaOptions& options);

}  // namespace slip::backend::cuda
