// Planning and starting steps (step_kernel.h).
#include <algorithm>
#include <bit>
#include <string>

#include "backend/cuda/kernels/attend_teams.h"
#include "backend/cuda/kernels/duties.h"
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/pick.h"
#include "backend/cuda/kernels/shared_plan.h"
#include "backend/cuda/kernels/stage_known.h"
#include "backend/cuda/kernels/turn.h"
#include "base/check.h"

namespace slip::backend::cuda {
namespace {

StepKernel kernel_for(int tiles) {
  return tiles == 1 ? narrow_step() : tiles == 2 ? middle_step() : wide_step();
}

/// Attention in two teams, or not, where it can be.
void set_teams(std::vector<Phase>& phases, bool teams) {
  for (Phase& phase : phases) {
    if (phase.kind != StepKind::kAttend) continue;
    auto job = job_of<AttendJob>(phase);
    job.teams = teams && fits_teams(job.own);
    phase.set(job);
  }
}

/// What the code of attention has to know first; see AttendWay.
void set_ways(std::vector<Phase>& phases) {
  for (size_t i = 0; i < phases.size(); ++i) {
    if (phases[i].kind != StepKind::kAttend) continue;
    const auto job = job_of<AttendJob>(phases[i]);
    const bool after_product = i > 0 && phases[i - 1].kind == StepKind::kProduct;
    phases[i].way = (job.merges ? AttendWay::kMerges : 0) | (after_product ? AttendWay::kAfterProduct : 0) |
                    (job.own.cache.k_is_v ? AttendWay::kOne : 0) |
                    std::countr_zero(static_cast<unsigned>(job.own.cache.head_dim)) << AttendWay::kSizeBit;
  }
}

/// What a tile costs beside its weights, as bytes that could be read meanwhile, where a matrix is multiplied
/// beside experts: the sums of all rows are left, added up and written, and the block meets in between. As
/// measured with the dense down of 26B-A4B, whose tiles are a third of the experts': a step takes 2.75 ms at
/// 4 rows instead of 2.80, 4.3 instead of 4.95 at 8, 9.0 instead of 12.7 at 16. At 2 rows it is better
/// without, and so are queries, keys and values (31B's at 8 rows 2.64 ms, with this 2.87), whose tiles are of
/// one kind.
double tile_overhead(const Job& job) {
  return !job.stacked || job.rows < 3 ? 0 : 1024.0 * job.rows * std::min(job.rows, 8);
}

/// Column tiles of the kernel for so many rows: as few as those matrices need that most weights are of.
int tiles_for(const std::vector<Job>& jobs, int rows) {
  int64_t bytes[2] = {};  // of weights for pairs, for halves
  for (const Job& job : jobs) {
    for (int i = 0; i < job.segment_count; ++i) {
      const PackedMatrix& matrix = job.segments[i].matrix;
      bytes[in_halves(matrix.format) ? 1 : 0] += matrix.matrix_bytes();
    }
  }
  const int rows_of_one = bytes[1] > bytes[0] ? 8 : 4;
  return rows <= rows_of_one ? 1 : rows <= 2 * rows_of_one ? 2 : 4;
}

/// Of a block of the segment.
int most_tiles(const Segment& segment) {
  return segment.blocks == 0 ? 0 : (segment.matrix.tiles + segment.blocks - 1) / segment.blocks;
}

}  // namespace

int pick_chunks(const Gpu& gpu, int rows, int size) {
  const int most = std::min(kMostPickChunks, std::max(1, size / kLeastPick));
  return std::clamp(gpu.info().processors / rows, 1, most);
}

void prepare_steps(Gpu& gpu) {
  for (const int tiles : {1, 2, 4}) allow_shared(kernel_for(tiles), gpu.info().shared_bytes);
}

void StepList::add_product(const Gpu& gpu, Job job, int listed, int mark) {
  const auto tiles_read = [&](const Segment& segment) {
    return segment.matrix.tiles * (segment.matrix.count > 1 ? listed : 1);
  };
  const auto cost_of = [&](const Segment& segment) {
    return (static_cast<double>(segment.matrix.matrix_bytes()) +
            static_cast<double>(segment.matrix.tiles) * tile_overhead(job)) *
           (segment.matrix.count > 1 ? listed : 1);
  };
  for (int i = 0; i < job.segment_count; ++i) {
    Segment& segment = job.segments[i];
    if (segment.in.cols % 4 != 0)
      fail_gpu("the CUDA kernels take rows of a multiple of 4 columns, and this model has some of " +
               std::to_string(segment.in.cols) + "; use --device cpu");
    const bool bunched = segment.bunch_shares != nullptr;
    if (bunched) {
      // All rows of a bunch as one, with zeros between them.
      segment.bunch_pieces = static_cast<int>(segment.in.stride) / piece_cols(segment.matrix.format);
      segment.in.cols = kBunch * static_cast<int>(segment.in.stride);
      SLIP_CHECK(segment.in.stride % piece_cols(segment.matrix.format) == 0 &&
                 segment.bunch_pieces >= segment.matrix.pieces);
    }
    SLIP_CHECK(!bunched ||
               (job.rows == 1 && listed % kBunch == 0 && segment.matrix.parts <= kWarps / kBunch));
    segment.parts_log = std::countr_zero(static_cast<unsigned>(segment.matrix.parts));
    segment.slots_log = slots_log_of(segment.matrix.parts, bunched);
    segment.staging = staging_of(segment);
    SLIP_CHECK(segment.in.mixture.chosen == 0 || segment.staging > 0);
    SLIP_CHECK(segment.in.slots == 0 || (segment.in.branch == nullptr && !segment.normed));
    SLIP_CHECK(!in_halves(segment.matrix.format) || (segment.in.slots == 0 && !bunched));
    segment.multiplying = multiplying(segment.matrix.format, segment.matrix.groups, segment.matrix.subtiles);
    job.stacked |= segment.matrix.count > 1;
  }
  double total = 0;
  for (int i = 0; i < job.segment_count; ++i) total += cost_of(job.segments[i]);
  // Each segment its share, at least one block; the rounding falls on the largest.
  const int processors = gpu.info().processors;
  int left = processors, largest = 0;
  for (int i = 0; i < job.segment_count; ++i) {
    Segment& segment = job.segments[i];
    const int share = static_cast<int>(processors * cost_of(segment) / total + 0.5);
    segment.blocks = std::clamp(share, 1, std::max(1, tiles_read(segment)));
    left -= segment.blocks;
    if (cost_of(segment) > cost_of(job.segments[largest])) largest = i;
  }
  Segment& most = job.segments[largest];
  most.blocks = std::clamp(most.blocks + left, 1, std::max(1, tiles_read(most)));
  int next = 0;
  for (int i = 0; i < job.segment_count; ++i) {
    Segment& segment = job.segments[i];
    segment.first_block = next;
    next += segment.blocks;
  }
  job.blocks = next;
  job.matrices = listed;
  if (next > processors)
    fail_gpu("a product has more matrices than this GPU has multiprocessors; use --device cpu");
  Phase phase;
  phase.kind = StepKind::kProduct;
  phase.product = static_cast<int>(jobs_.size());
  phase.mark = mark;
  phases_.push_back(phase);
  jobs_.push_back(job);
}

void StepList::finish(Gpu& gpu, int rows, int per_pass) {
  const auto limit = static_cast<int>(gpu.info().shared_bytes);
  tiles_ = tiles_for(jobs_, rows);
  plan_ = plan_shared(phases_, jobs_, rows, tiles_, limit);
  while (tiles_ > 1 && plan_.slots < kLeastSlots) {
    tiles_ /= 2;
    plan_ = plan_shared(phases_, jobs_, rows, tiles_, limit);
  }
  if (rows == 1) {  // more rows have more than eight queries
    set_teams(phases_, true);
    const SharedPlan plan = plan_shared(phases_, jobs_, rows, tiles_, limit);
    const bool room = plan.slots >= plan_.slots;  // weights under way matter more
    if (room) plan_ = plan;
    set_teams(phases_, room);
  }
  if (plan_.slots < 1)
    fail_gpu("the matrices of this model are too wide for the shared memory of this GPU; use --device cpu");
  for (size_t job_number = 0; job_number < jobs_.size(); ++job_number) {
    Job& job = jobs_[job_number];
    const int most = std::min(most_rows(job, tiles_), per_pass), passes = (rows + most - 1) / most;
    for (Segment& segment : job.segments) {
      int end = 0;
      const int place = stage_place(plan_, segment, tiles_);
      const Stage stage = stage_at(place, segment, tiles_, end);
      segment.space.biases = stage.biases;
      segment.space.scales = stage.scales;
      segment.space.padded = staged_cols(segment);
      if (segment.rows_apart()) {
        segment.space.rows_apart = stage_aligned(end - place);
        segment.rows_kept = (plan_.ring - plan_.work) / segment.space.rows_apart;
      }
    }
    job.rows = rows;
    job.rows_per_pass = (rows + passes - 1) / passes;
    job.passes = (rows + job.rows_per_pass - 1) / job.rows_per_pass;
    for (Segment& segment : job.segments) {
      Space& space = segment.space;
      space.rows_log = std::bit_width(static_cast<unsigned>(job.rows_per_pass - 1));
      const int round = (kWarps * 16 * segment.matrix.subtiles) << space.rows_log;
      const SumSpace sums = sum_space(plan_, segment, tiles_, attends_next(phases_, job_number));
      space.sums = sums.place;
      // All rounds at once where there is room, else in two halves, by turns.
      const int rounds = rounds_of(segment, most_tiles(segment));
      const bool once = segment.matrix.count == 1 && rounds * round <= sums.floats;
      space.half_floats = !once && 2 * round <= sums.floats ? sums.floats / 2 : 0;
      space.batch = once ? rounds : std::max(1, space.half_floats / round);
    }
  }
  set_ways(phases_);
  const auto aligned = [](size_t bytes) { return (bytes + 255) / 256 * 256; };
  const DutyTable table = duties_of(jobs_, gpu.info().processors, kSkipNothing);
  jobs_at_ = aligned(phases_.size() * sizeof(Phase));
  duties_at_ = jobs_at_ + aligned(jobs_.size() * sizeof(Job));
  shares_at_ = duties_at_ + aligned(table.duties.size() * sizeof(Duty));
  clocks_at_ = shares_at_ + aligned((table.shares.size() + kWarps) * sizeof(WarpShare));
  arrived_at_ = clocks_at_ + aligned((phases_.size() + 1) * 2 * sizeof(long long));
  memory_ = DeviceMemory(arrived_at_ + 256, "the list of a step");
  gpu.clear(memory_.data(), memory_.size());
  gpu.to_device(memory_.data(), phases_.data(), phases_.size() * sizeof(Phase));
  if (!jobs_.empty()) {
    gpu.to_device(memory_.data() + jobs_at_, jobs_.data(), jobs_.size() * sizeof(Job));
    gpu.to_device(memory_.data() + duties_at_, table.duties.data(), table.duties.size() * sizeof(Duty));
    gpu.to_device(memory_.data() + shares_at_, table.shares.data(), table.shares.size() * sizeof(WarpShare));
  }
  gpu.finish();
  arrived_ = 0;
  skipped_ = kSkipNothing;
}

void StepList::skip(Gpu& gpu, int skipped) {
  if (skipped_ == skipped) return;
  skipped_ = skipped;
  const DutyTable table = duties_of(jobs_, gpu.info().processors, skipped);
  gpu.to_device(memory_.data() + duties_at_, table.duties.data(), table.duties.size() * sizeof(Duty));
  gpu.finish();
}

void StepList::start(Gpu& gpu, const Step* state, bool timed, int skipped, int parts) {
  skip(gpu, skipped & (kSkipStage | kSkipMultiply));
  StepArguments step;
  step.step = state;
  step.phases = reinterpret_cast<const Phase*>(memory_.data());
  step.jobs = reinterpret_cast<const Job*>(memory_.data() + jobs_at_);
  step.duties = reinterpret_cast<const Duty*>(memory_.data() + duties_at_);
  step.shares = reinterpret_cast<const WarpShare*>(memory_.data() + shares_at_);
  const bool all = parts == 0;
  step.phase_count = all ? static_cast<int>(phases_.size()) : parts_[static_cast<size_t>(parts) - 1].phases;
  step.job_count = all ? static_cast<int>(jobs_.size()) : parts_[static_cast<size_t>(parts) - 1].jobs;
  step.streamed = (skipped & kSkipStream) != 0 ? 0 : step.job_count;
  started_ = step.phase_count;
  step.arrived = reinterpret_cast<uint32_t*>(memory_.data() + arrived_at_);
  step.arrived_before = arrived_ + ((skipped & kSkipArrival) != 0 ? 1 : 0);
  if (timed) step.clocks = reinterpret_cast<long long*>(memory_.data() + clocks_at_);
  step.stuck = gpu.stuck();
  step.plan = plan_;
  if ((skipped & kSkipStream) != 0) step.plan.parity_flip = 0;
  const int blocks = gpu.info().processors;
  if (timed) gpu.mark(0);
  launch(gpu,
         {.blocks = blocks,
          .threads = kBlockThreads,
          .shared_bytes = static_cast<size_t>(plan_.end),
          .together = true},
         kernel_for(tiles_), step);
  arrived_ += static_cast<uint32_t>(blocks) * static_cast<uint32_t>(started_);
  if (timed) gpu.mark(1);
}

std::vector<StepList::Timing> StepList::timings(Gpu& gpu) {
  const auto count = static_cast<size_t>(started_);
  std::vector<long long> clocks((count + 1) * 2);
  gpu.to_host(clocks.data(), memory_.data() + clocks_at_, clocks.size() * sizeof(long long));
  gpu.finish();
  const auto ticks = static_cast<double>(std::max(1ll, clocks.back() - clocks[1]));
  const double tick = gpu.seconds_between(0, 1) / ticks;
  std::vector<Timing> timings;
  for (size_t i = 0; i < count; ++i) {
    timings.push_back({.mark = phases_[i].mark,
                       .kind = phases_[i].kind,
                       .seconds = static_cast<double>(clocks[2 * i + 3] - clocks[2 * i + 1]) * tick,
                       .waited = static_cast<double>(clocks[2 * i + 3] - clocks[2 * i + 2]) * tick});
  }
  return timings;
}

}  // namespace slip::backend::cuda
