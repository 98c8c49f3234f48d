// The CPU executor: packed weights, a thread pool, and the phases of the Program over a batch of rows.
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"
#include "backend/cpu/rows.h"
#include "kv/layout.h"
#include "model/program.h"

namespace slip::backend::cpu {

struct CpuOptions {
  int threads = 0;  // 0 = one per core this process may use
  // Rows one step takes. 512 rows amortise a pass over the weights to nothing and keep the widest activation
  // of the largest model at 44 MB.
  int max_rows = 512;
  // What affine matrices see; float matrices always see floats. Sixteen bits are what ships: eight are faster
  // for prompts, but move the logits by ten percent and more.
  ActivationMode activations = ActivationMode::kInt16;
  kv::Storage kv_storage = kv::Storage::kBf16;
  /// Called while packing with the share done, 0 to 1, from the loading thread.
  std::function<void(double)> progress;
};

/// Packs the weights and returns a ready backend. `weights` and what they view must outlive it: embedding
/// rows are read from the checkpoint as they are needed.
std::unique_ptr<Backend> load(const model::Config& config, const model::Weights& weights,
                              const CpuOptions& options);

/// A backend that can also show what each phase computed, for comparing with the reference.
class ObservableBackend : public Backend {
 public:
  /// Called after a phase with rows x cols floats of its output field, on thread 0 while the others wait.
  std::function<void(const model::Phase&, const float* data, int64_t rows, int64_t cols, int64_t stride)>
      observe;
};
std::unique_ptr<ObservableBackend> load_observable(const model::Config& config, const model::Weights& weights,
                                                   const CpuOptions& options);

}  // namespace slip::backend::cpu
