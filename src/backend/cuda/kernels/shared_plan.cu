#include "backend/cuda/kernels/shared_plan.h"

#include <algorithm>
#include <string>

#include "backend/cuda/kernels/attend_phases.h"
#include "backend/cuda/kernels/expert_list.h"
#include "backend/cuda/kernels/next_draft.h"
#include "backend/cuda/kernels/pick.h"
#include "backend/cuda/kernels/tiles.h"

namespace slip::backend::cuda {
namespace {

constexpr int kMostSlots = 4;  // of a warp; more hide no more

int align(int bytes) {
  return (bytes + 127) / 128 * 128;
}

int attend_bytes(const AttendJob& job) {
  const bool k_is_v = job.own.cache.k_is_v;
  const int pairs = job.own.turns.pairs;
  const int head_dim = job.own.cache.head_dim;
  if (k_is_v && head_dim >= 256 && pairs != head_dim / 8)  // AttendPlan::kPairs
    fail_gpu("the CUDA kernels turn a quarter of large heads, and this model turns " +
             std::to_string(2 * pairs) + " of " + std::to_string(head_dim) + " dimensions; use --device cpu");
  switch (head_dim) {
    case 16: return attend_space<16>(k_is_v, pairs);
    case 32: return attend_space<32>(k_is_v, pairs);
    case 64: return attend_space<64>(k_is_v, pairs);
    case 128: return attend_space<128>(k_is_v, pairs);
    case 256: return attend_space<256>(k_is_v, pairs);
    case 512: return attend_space<512>(k_is_v, pairs);
    default: break;
  }
  fail_gpu("the CUDA kernels have no heads of size " + std::to_string(head_dim) + "; use --device cpu");
}

/// What a phase that is no product keeps in shared memory.
int work_bytes(const Phase& phase) {
  switch (phase.kind) {
    case StepKind::kAttend: {
      const auto job = job_of<AttendJob>(phase);
      return std::max(attend_bytes(job), job.teams ? TeamPlan::kEnd : 0);
    }
    case StepKind::kClusters: return (job_of<ClusterJob>(phase).clusters + 32) * 4;
    case StepKind::kPick: return sizeof(PickSpace);
    case StepKind::kNextDraft: return sizeof(DrawSpace);
    default: return 0;
  }
}

int stage_bytes(const Segment& segment, int tiles) {
  int end = 0;
  stage_at(0, segment, tiles, end);
  return stage_aligned(end);
}

}  // namespace

SharedPlan plan_shared(const std::vector<Phase>& phases, const std::vector<Job>& jobs, int rows, int tiles,
                       int limit) {
  SharedPlan plan;
  int work = 0, subtiles = 1, together = 1;  // rows of a pass
  bool stacked = false;
  plan.slot_bytes = 16;
  for (const Phase& phase : phases) work = std::max(work, work_bytes(phase));
  int choices = 0;
  for (const Job& job : jobs) {
    choices = std::max(choices, choice_space(0, rows, job.route.experts).end);
    together = std::max(together, std::min(rows, most_rows(job, tiles)));
    for (int i = 0; i < job.segment_count; ++i) {
      const PackedMatrix& matrix = job.segments[i].matrix;
      // Of a stack whose matrices have rows of their own, of two at a time: a block has seldom tiles of more.
      const Segment& segment = job.segments[i];
      work = std::max(work, stage_bytes(segment, tiles) * (segment.rows_apart() ? 2 : 1));
      plan.slot_bytes = std::max(plan.slot_bytes, matrix.piece_bytes * (2 / matrix.subtiles));
      subtiles = std::max(subtiles, matrix.subtiles);
      stacked |= matrix.count > 1;
    }
  }
  plan.done = align(sizeof(Watch));
  plan.arguments = plan.done + align(sizeof(Arrival));
  plan.streams = plan.arguments + align(sizeof(StepArguments));
  plan.lookouts = plan.streams + align(kWarps * sizeof(Stream));
  plan.runs = plan.lookouts + align(kWarps * sizeof(Lookout));
  plan.list = plan.runs + align(kWarps * kRunsKept * sizeof(TileRun));
  plan.places = plan.list + align(sizeof(int));
  plan.walks = plan.places + align(kWarps * sizeof(Place));
  plan.duties = plan.walks + align(kWarps * sizeof(TileWalk));
  plan.jobs = plan.duties + align(kDutiesKept * sizeof(Duty));
  plan.phases = plan.jobs + align(kJobsKept * sizeof(OwnJob));
  plan.step = plan.phases + align(kPhasesKept * sizeof(Phase));
  plan.partial = plan.step + align(sizeof(Step));
  plan.active = plan.partial + 2 * kWarps * kMaxRows * 4;
  plan.chosen = plan.active + (stacked ? kMaxListed * 4 : 0);
  plan.sums = plan.chosen + (stacked ? kMaxListed * kMaxRows : 0);
  plan.sum_floats = std::max(kWarps * subtiles * 16 * rows_summed(together), choices / 4);
  plan.work = stage_aligned(plan.sums + plan.sum_floats * 4);
  plan.ring = align(plan.work + work);
  static_assert(kMostSlots * sizeof(Arrival) <= taken_place(0));  // and one for keys at the end
  const auto find_slots = [&](int arrival_bytes) {
    plan.arrival_bytes = arrival_bytes;
    const int room = (limit - plan.ring) / kWarps - arrival_bytes;
    plan.slots = std::clamp(room / plan.slot_bytes, 0, kMostSlots);
  };
  find_slots(128);
  if (plan.slots < kLeastSlots) find_slots(kArrivalBytes);
  plan.end = plan.ring + kWarps * ring_bytes(plan);
  // What is left, too little for another place in every ring, is room for more sums of several rows.
  const int spare = rows > 1 && plan.slots > 0 ? (limit - plan.end) / kStageAlignment * kStageAlignment : 0;
  plan.sum_floats += spare / 4;
  plan.work += spare;
  plan.ring += spare;
  plan.end += spare;
  return plan;
}

bool attends_next(const std::vector<Phase>& phases, size_t product) {
  for (size_t i = 0; i + 1 < phases.size(); ++i) {
    if (phases[i].product == static_cast<int>(product)) return phases[i + 1].kind == StepKind::kAttend;
  }
  return false;
}

int stage_place(const SharedPlan& plan, const Segment& segment, int tiles) {
  if (segment.rows_apart()) return plan.work;
  return (plan.ring - stage_bytes(segment, tiles)) / kStageAlignment * kStageAlignment;
}

SumSpace sum_space(const SharedPlan& plan, const Segment& segment, int tiles, bool attends) {
  const auto floats = [](int bytes) { return bytes / 64 * 16; };
  if (attends) return {plan.sums, plan.sum_floats};
  if (!segment.rows_apart()) return {plan.sums, floats(stage_place(plan, segment, tiles) - plan.sums)};
  const int place = plan.work + segment.rows_kept * segment.space.rows_apart;
  const int behind = floats(plan.ring - place);
  if (behind <= plan.sum_floats) return {plan.sums, plan.sum_floats};
  return {place, behind};
}

}  // namespace slip::backend::cuda
