// Working out duties (duties.h).
#include "backend/cuda/kernels/duties.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "backend/cuda/kernels/results.h"
#include "backend/cuda/kernels/stage_known.h"
#include "base/check.h"

namespace slip::backend::cuda {
namespace {

/// The shares of warps that some duty names, each set once: [set][kWarps].
class ShareSets {
 public:
  /// The set of a segment of which a block has `tiles` tiles.
  int number(const Segment& segment, int tiles) {
    const Key key{segment.parts_log, segment.matrix.pieces, segment.bunch_pieces, tiles};
    if (latest_ != numbers_.end() && latest_->first == key) return latest_->second;  // as the block before
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<int>(numbers_.size()));
    for (int warp = 0; is_new && warp < kWarps; ++warp) shares_.push_back(staged_share(segment, warp, tiles));
    latest_ = at;
    return at->second;
  }
  std::vector<WarpShare> take() && { return std::move(shares_); }

 private:
  using Key = std::tuple<int, int, int, int>;
  std::map<Key, int> numbers_;
  std::map<Key, int>::iterator latest_ = numbers_.end();
  std::vector<WarpShare> shares_;
};

/// Where all that a block has of a segment is one turn, whose sums wait for one barrier: that turn.
std::optional<TileTurn> simple_turn(const Job& job, const Segment& segment, const Duty& duty) {
  const PackedMatrix& matrix = segment.matrix;
  const int count = duty.end - duty.first;
  if (!duty.known() || count == 0 || job.passes > 1 || rounds_of(segment, count) > segment.space.batch)
    return {};
  TileTurn turn{.run = {0, duty.first, count}, .rows = job.rows, .rounds = rounds_of(segment, count)};
  if (matrix.count > 1) turn.run = {duty.first / matrix.tiles, duty.first % matrix.tiles, count};
  const bool one_matrix = turn.run.tile + count <= matrix.tiles;
  if (segment.space.rows_apart > 0 && (job.rows > 1 || !one_matrix)) return {};
  return turn;
}

/// Whether there is a way to stage a row while its experts are chosen: nothing is added to it, and it is not
/// the choice that says which one it is.
bool stages_along(const Job& job, const Duty& duty) {
  constexpr int kNeeded = Duty::kSimple | Duty::kOneRow;
  return job.route.experts > 0 && (duty.kind & kNeeded) == kNeeded &&
         Duty::staging(duty.kind) <= staging(Branch::kNone, true, kMostTurns) &&
         job.segments[duty.segment].in.slots == 0;
}

/// What block `own` of a segment has to do.
Duty duty_of(const Job& job, int which, int own, int skipped, ShareSets& shares) {
  const Segment& segment = job.segments[which];
  const PackedMatrix& matrix = segment.matrix;
  const bool stack = matrix.count > 1;
  Duty duty;
  duty.segment = which;
  const bool bunch = segment.bunch_shares != nullptr;
  const Share share = bunch   ? bunch_share(matrix.tiles, job.matrices, own, segment.blocks)
                      : stack ? stack_share(matrix.tiles, job.matrices, own, segment.blocks)
                              : even_share(matrix.tiles, own, segment.blocks);
  duty.first = share.first;
  duty.end = share.end;
  // Of the experts of one row there are always as many.
  if (!stack || (job.rows == 1 && job.route.experts > 0)) duty.kind |= Duty::kKnown;
  if (segment.first_block + own == 0 && segment.keep_normed != nullptr) duty.kind |= Duty::kKeeps;
  const auto turn = simple_turn(job, segment, duty);
  if (turn) {
    duty.kind |= Duty::kSimple;
    duty.turn = *turn;
    duty.shares = shares.number(segment, turn->run.count);
    const int results = turn->rounds << (segment.slots_log + results_log_of(segment));
    const bool keeps = (duty.kind & Duty::kKeeps) != 0;
    if (!keeps && !bunch && results << segment.space.rows_log <= 32) duty.kind |= Duty::kFew;
  }
  if (bunch) duty.kind |= Duty::kBunch;
  if (is_eights(matrix.format)) duty.kind |= Duty::kEights;
  if (in_halves(matrix.format)) duty.kind |= Duty::kHalves;
  const bool staged = (skipped & kSkipStage) == 0;
  if (!staged) duty.kind |= Duty::kNotStaged;
  if (staged && job.rows == 1 && segment.staging > 0 && (turn || segment.space.rows_apart == 0))
    duty.kind |= Duty::kOneRow;
  const bool multiplied = (skipped & kSkipMultiply) == 0;
  duty.kind |= segment.staging << Duty::kStagingBit | matrix.groups << Duty::kGroupsBit |
               segment.in.branch_parts << Duty::kPartsBit |
               (multiplied ? segment.multiplying : passing_on(matrix.subtiles)) << Duty::kMultiplyingBit;
  return duty;
}

}  // namespace

DutyTable duties_of(const std::vector<Job>& jobs, int blocks, int skipped) {
  ShareSets shares;
  std::vector<Duty> duties;
  duties.reserve(jobs.size() * static_cast<size_t>(blocks));
  int list = -1;
  size_t learnt = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    const bool learns = job.stacked && job.list_number != list;
    if (learns) {
      list = job.list_number;
      learnt = i;
    }
    SLIP_CHECK(!job.stacked || i - learnt < kListReaders);
    for (int block = 0; block < blocks; ++block) {
      Duty& duty = duties.emplace_back();
      duty.kind = Duty::kKnown;  // nothing to do
      for (int s = 0; s < job.segment_count; ++s) {
        const int own = block - job.segments[s].first_block;
        if (own >= 0 && own < job.segments[s].blocks) duty = duty_of(job, s, own, skipped, shares);
      }
      if (learns) duty.kind |= Duty::kLearns;
      if (learns && stages_along(job, duty)) duty.kind |= Duty::kStagesAlong;
    }
  }
  return {std::move(duties), std::move(shares).take()};
}

}  // namespace slip::backend::cuda
