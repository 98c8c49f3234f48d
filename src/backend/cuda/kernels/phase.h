// A step as a list of phases in device memory, which one kernel walks: every block takes its share of a
// phase, then all meet. Products come with a job each; everything else has its description in the phase.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

enum class StepKind : int {
  kProduct,
  kHeads,
  kAttend,
  kAttendFloats,
  kSum,
  kPerLayer,
  kClusters,
  kPick,
  kNextDraft,
  kEmpty
};

struct alignas(16) PhaseHead {
  StepKind kind = StepKind::kEmpty;
  int product = -1;  // which
  int mark = -1;     // of the program's phases, the one it belongs to
  int way = 0;       // of attention; StepList::finish() fills it in
};
/// What the code of attention has to know first, in one word: whether it merges blocks of keys, whether the
/// phase before it is a product, whether K = V, and the logarithm of the head's size.
struct AttendWay {
  static constexpr int kMerges = 1, kAfterProduct = 2, kOne = 4, kSizeBit = 3;
};
struct alignas(16) Phase : PhaseHead {
  static constexpr size_t kBodyBytes = 368;
  std::byte body[kBodyBytes] = {};  // the job, unless it is a product

  template <typename T>
  void set(const T& job) {
    static_assert(sizeof(T) <= kBodyBytes && std::is_trivially_copyable_v<T>);
    std::memcpy(body, &job, sizeof(T));
  }
};

/// What the kernel is started with.
struct StepArguments {
  const Phase* phases = nullptr;
  const Job* jobs = nullptr;
  const Duty* duties = nullptr;       // [product][block]
  const WarpShare* shares = nullptr;  // [Duty::shares][kWarps]
  const Step* step = nullptr;         // null where no phase asks
  int phase_count = 0, job_count = 0;
  int streamed = 0;             // products whose weights are brought: all, unless a benchmark leaves them out
  uint32_t* arrived = nullptr;  // blocks, at barriers
  uint32_t arrived_before = 0;  // the step
  long long* clocks =
      nullptr;  // [1 + phase][2]: when block 0 was done, and when all were; null = not asked for
  StuckReport* stuck = nullptr;  // where a thread that waits too long says so
  SharedPlan plan;
};

/// One step of a width: filled by the executor once, then started again and again.
class StepList {
 public:
  /// Deals the blocks out to the segments by what they cost: bytes, and beside experts tiles. `listed`: how
  /// many matrices of a stack are read, more or less.
  void add_product(const Gpu& gpu, Job job, int listed, int mark);
  template <typename T>
  void add(StepKind kind, const T& job, int mark) {
    Phase phase;
    phase.kind = kind;
    phase.mark = mark;
    phase.set(job);
    phases_.push_back(phase);
  }
  void add_empty(int mark) {
    Phase phase;
    phase.mark = mark;
    phases_.push_back(phase);
  }

  /// Ends a part of the list: start() can stop there.
  void end_part() { parts_.push_back({static_cast<int>(phases_.size()), static_cast<int>(jobs_.size())}); }

  /// Plans shared memory and copies the list to the device. `rows`: of the step. Throws Error(kRuntime) when
  /// a matrix is too wide for the device. `per_pass`: at most so many rows at a time.
  void finish(Gpu& gpu, int rows, int per_pass = kMaxRows);
  /// Starts the step. With clocks, timings() tells afterwards what took how long. `parts`: only so many of
  /// the list.
  void start(Gpu& gpu, const Step* step, bool timed = false, int skipped = kSkipNothing, int parts = 0);

  struct Timing {
    int mark;
    StepKind kind;
    double seconds;  // from the meeting before to this one
    double waited;   // of them, block 0 at the meeting
  };
  /// After gpu.finish() of a timed step.
  std::vector<Timing> timings(Gpu& gpu);
  const std::vector<Phase>& phases() const { return phases_; }
  const SharedPlan& plan() const { return plan_; }
  const std::vector<Job>& jobs() const { return jobs_; }
  bool ready() const { return memory_.size() > 0; }

 private:
  /// For a benchmark: what the duties on the device leave out.
  void skip(Gpu& gpu, int skipped);

  std::vector<Phase> phases_;
  std::vector<Job> jobs_;
  struct Part {
    int phases, jobs;  // up to its end
  };
  std::vector<Part> parts_;
  int started_ = 0;  // phases, the last time
  int tiles_ = 1;    // column tiles of the kernel: see column_tiles()
  SharedPlan plan_;
  DeviceMemory memory_;
  size_t jobs_at_ = 0, duties_at_ = 0, shares_at_ = 0, clocks_at_ = 0, arrived_at_ = 0;
  uint32_t arrived_ = 0;
  int skipped_ = 0;  // that the duties on the device leave out
};

/// Once per process and device, before the first step.
void prepare_steps(Gpu& gpu);

using StepKernel = void (*)(StepArguments);
StepKernel narrow_step();  // up to 4 rows
StepKernel middle_step();  // up to 8
StepKernel wide_step();    // up to 16

}  // namespace slip::backend::cuda
