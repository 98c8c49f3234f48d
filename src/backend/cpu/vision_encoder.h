// The vision towers (model/vision.h) on the CPU, as an Encoder that works in slices on the target's threads.
//
// The phases of the program are joined to stages; inside a stage a row needs no other row's result, so that
// every thread takes a block of rows through all of it without a barrier. A slice is a part of a stage's
// rows, sized by what a row of that stage has cost so far. Stages end where all rows must be there: before
// attention, which reads every key, and before pooling.
//
// A row's bits depend on its image alone: not on slices, blocks, threads, or images before and after.
//
// Rows that enter a product are bf16 where the processor multiplies those (dot_rows.h), as in the published
// models; sums, norms, softmax and the residual stream are floats. With ActivationMode::kFloat, or without
// such instructions, everything is floats. Memory: about 15 KB per patch of the largest image (large tower),
// touched only as far as images go.
#pragma once

#include <functional>
#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "backend/encoder.h"
#include "base/thread_pool.h"
#include "model/vision.h"

namespace slip::backend::cpu {

/// The most soft rows of an image: the largest of Gemma 4's budgets.
inline constexpr int kMostSoftRows = 1120;

/// An encoder that can also show what each phase computed, for comparing with the reference.
class ObservableEncoder : public Encoder {
 public:
  struct Block {
    const model::VisionPhase& phase;
    int first = 0;  // of the phase's rows
    int rows = 0, cols = 0;
    const float* data = nullptr;
    int64_t stride = 0;
  };
  /// Called with every block of rows that a phase has computed, in no order, one at a time.
  std::function<void(const Block&)> observe;

  /// Seconds that each phase of the program has taken since begin(), added over the threads; attention's
  /// products are in its own phase.
  virtual std::span<const double> phase_seconds() const = 0;
  virtual const model::VisionProgram& program() const = 0;
  /// Whether products take bf16 rows.
  virtual bool narrow() const = 0;
};

/// `pool` and `weights` must outlive it: rows of the position table are read as they are needed. Throws
/// Error(kOutOfMemory).
std::unique_ptr<ObservableEncoder> load_vision(ThreadPool& pool, const CpuOptions& options,
                                               const model::VisionConfig& config,
                                               const model::VisionWeights& weights);

}  // namespace slip::backend::cpu
