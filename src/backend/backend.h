// Backend: one executor of the forward pass with its packed weights. The promise every backend keeps: a row's
// bits depend on that row and its sequence's past alone, not on how many rows are computed with it or where
// it stands.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/batch.h"
#include "backend/drafting.h"
#include "backend/encoder.h"
#include "kv/cache.h"
#include "model/config.h"
#include "model/program.h"
#include "model/vision.h"

namespace slip::backend {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const model::Config& config() const = 0;
  /// The most rows one run() takes.
  virtual int max_rows() const = 0;
  /// So many rows a run() may have for the fastest path; 0 = there is one path for all.
  virtual int narrow_rows() const { return 0; }
  /// How the caches of its sequences are laid out.
  virtual const kv::Layout& kv_layout() const = 0;
  /// The pages of all caches, of this network's and of its drafters'. From the thread that calls run().
  virtual kv::PagePool& pages() = 0;
  /// An empty cache for one sequence; the backend outlives it.
  virtual std::unique_ptr<kv::Cache> new_cache() = 0;
  /// Runs the program over the rows: writes their KV to the staged slots and returns logits. Does not commit.
  virtual Output run(const Batch& batch) = 0;

  /// From the next run() on, Output::taps holds the outputs of these layers (see model/dflash.h). Called
  /// once, before anything runs.
  virtual void set_taps(std::span<const int> layers);
  /// Draft networks for this target; `weights` must outlive them where they are matrices to gather from. The
  /// configs have been fitted to the target. Throws Error(kOutOfMemory); a backend without drafters throws
  /// Error(kRuntime).
  virtual std::unique_ptr<Assistant> load_assistant(const model::AssistantConfig& config,
                                                    const model::AssistantWeights& weights,
                                                    const DraftOptions& options);
  virtual std::unique_ptr<BlockDrafter> load_dflash(const model::DflashConfig& config,
                                                    const model::DflashWeights& weights,
                                                    const DraftOptions& options);

  /// A vision tower whose soft rows this backend's batches take. It works between steps on this backend's
  /// threads; `weights` must outlive it. Null of a backend without towers. Throws Error(kOutOfMemory).
  virtual std::unique_ptr<Encoder> load_vision(const model::VisionConfig& config,
                                               const model::VisionWeights& weights);

  /// Weight bytes read by a step of one row (experts: those of one row), and all weight bytes held.
  virtual size_t streamed_bytes() const = 0;
  virtual size_t resident_bytes() const = 0;
  /// Bytes per second a plain read loop reaches on the memory the weights are in, measured now (a fraction of
  /// a second).
  virtual double measure_read_bandwidth() = 0;
  /// Adds up the time of every phase from now on, over all runs; bytes are those of one row. In the order of
  /// the program; empty where a backend cannot tell.
  struct PhaseTime {
    const char* name = "";
    int layer = -1;
    double seconds = 0;
    size_t bytes = 0;
    bool within = false;  // a part of the others' time
  };
  virtual void time_phases() {}
  virtual std::vector<PhaseTime> phase_times() const { return {}; }
  /// Effective settings for people: "cpu, 2 threads, AVX-512 VNNI, 16-bit activations".
  virtual std::string description() const = 0;
};

/// Each phase of a program with its seconds.
std::vector<Backend::PhaseTime> phase_times_of(const model::Program& program,
                                               std::span<const double> seconds);
/// All layers together.
std::vector<Backend::PhaseTime> by_kind(std::span<const Backend::PhaseTime> times);

}  // namespace slip::backend
