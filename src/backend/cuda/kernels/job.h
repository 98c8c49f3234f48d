// What one product phase of a step does: up to four matrices that are multiplied with rows at the same time,
// each by blocks of its own. A job is plain data; executors fill it once per width and phase.
#pragma once

#include <cstdint>

#include "backend/cuda/packed_matrix.h"
#include "model/config.h"

namespace slip::backend::cuda {

inline constexpr int kBlockThreads = kWarps * 32;
inline constexpr int kTurnCols = 4 * kBlockThreads;  // of a row, that all threads take at once
inline constexpr int kMostTurns = 3;                 // that code is made for: rows of up to 6144 columns,
inline constexpr int kMixTurns = 2;                  // with experts to be mixed, up to 4096

inline constexpr int kMaxRows = 16;     // of one step
inline constexpr int kMaxListed = 512;  // matrices of a stack that one phase reads

/// Which matrices of a stack (the clusters of a head) a step reads, and for which rows. On the device.
struct MatrixList {
  int count;
  int matrix[kMaxListed];
  int slot[kMaxListed][kMaxRows];  // of the row's choices, which one this is; -1 = the row did not choose it
};
inline constexpr int kMostExperts = 256, kMaxChosen = 64;

/// What experts give is added up in bunches of so many of a row's choices, and then bunch by bunch.
inline constexpr int kBunchLog = 2, kBunch = 1 << kBunchLog;

/// What becomes of what the experts of a row gave, beside a dense branch: norm(dense) + norm(sum over slots
/// of share * out).
struct Mixture {
  const float* out = nullptr;  // [row * chosen + slot][stride]; where `bunched` [bunch][stride], their sums
  int64_t stride = 0;
  int chosen = 0;        // 0 = there are no experts
  bool bunched = false;  // of a single row: whoever multiplied has added up each bunch
  const float* shares = nullptr;
  int64_t shares_stride = 0;
  const float *dense_norm = nullptr, *expert_norm = nullptr;  // [cols]
};

/// Where activation rows come from. x = rows, then if there is a branch x = (x + norm(branch)) * scalar, then
/// x is what the segment multiplies with, normed if it says so.
struct Input {
  const float* rows = nullptr;  // [n][stride]; null = the branch alone
  int64_t stride = 0;
  int cols = 0;
  const float* branch = nullptr;  // [part][n][branch_stride], the sum over its parts
  int64_t branch_stride = 0;
  int branch_parts = 1;
  int64_t part_stride = 0;
  const float* branch_norm = nullptr;  // [cols], null = added as it is
  Mixture mixture;                     // of a single row: what else the branch consists of
  float scalar = 1;
  float epsilon = 0;
  // The first block keeps x here, and once more in `tap`. Not where `rows` are.
  float* keep = nullptr;
  int64_t keep_stride = 0;
  float* tap = nullptr;
  int64_t tap_stride = 0;
  // Row n is row n * slots + (its slot for the matrix at hand) of `rows`, and nothing where it did not choose
  // it.
  int slots = 0;
};

enum class Epilogue : int {
  kStore,      // out = y
  kGated,      // out = activation(gate) * up, of a pair
  kGeluTimes,  // out = gelu(y) * other
  kLogits,     // softcap(y) to out[out_rows[n]], or to stay[n], or nowhere
};
/// Instead of a row of `out`.
inline constexpr int kNowhere = -1, kToPick = -2;

/// Where a segment's rows and sums lie in shared memory. StepList::finish() fills it in.
struct alignas(16) Space {
  int biases = 0;    // what they are multiplied with: see stage_at()
  int rows_log = 0;  // of a pass, padded to a power of two
  // Of a stack whose matrices have rows of their own (Input::slots): how far apart they are staged, of
  // Segment::rows_kept matrices at a time; 0 = all have the same.
  int rows_apart = 0;
  int sums = 0;         // space for sums of tiles,
  int batch = 1;        // of so many rounds before the block meets,
  int half_floats = 0;  // twice, so far apart; 0 = once
  int padded = 0;       // columns
  int scales = 0;       // of halves: see stage_at()
};

struct alignas(16) Segment {
  PackedMatrix matrix;
  // StepList::add_product() fills this in.
  int first_block = 0, blocks = 0;
  int parts_log = 0, slots_log = 4;  // of the warps that share a tile, and of groups of them
  Input in;
  bool normed = false;
  const float* norm = nullptr;  // [cols] weight; null = 1
  float norm_scale = 1;
  float* keep_normed = nullptr;  // the first block keeps the normed rows here, [n][cols]
  int64_t keep_normed_stride = 0;
  Epilogue epilogue = Epilogue::kStore;
  model::Activation activation = model::Activation::kGeluTanh;
  float* out = nullptr;  // [n][out_stride]; of a stack [n * out_slots + slot][out_stride]
  int64_t out_stride = 0;
  int out_slots = 0;
  // Of a stack whose matrices are a single row's experts: a block has the same tiles of all matrices of a
  // bunch, a quarter of its warps for each, and leaves out[bunch], their sum weighted with these; null = it
  // has not. The rows of a bunch are staged as one row, so many pieces for each.
  const float* bunch_shares = nullptr;
  int bunch_pieces = 0;
  const float* other = nullptr;
  int64_t other_stride = 0;
  float softcap = 0;
  const int* out_rows = nullptr;
  float* stay = nullptr;  // [n][stay_stride], for rows with kToPick
  int64_t stay_stride = 0;
  // Which of the kernel's own ways to stage and to multiply fits; filled in with the blocks.
  int staging = 0, multiplying = 0;
  int rows_kept = 0;  // see Space::rows_apart
  Space space;

  /// Whether each matrix of a stack has rows of its own, at a place of its own.
  constexpr bool rows_apart() const { return in.slots > 0 && bunch_shares == nullptr; }
};

inline constexpr int kMaxSegments = 4;

/// The experts of each row from its scores (expert_list.h): every block chooses for itself, and one of them
/// leaves the shares for whoever adds up what the experts gave.
struct RouteJob {
  int experts = 0;  // 0 = the list is not one of experts
  int chosen = 0;
  const float* scores = nullptr;
  int64_t stride = 0;
  const float* expert_scale = nullptr;
  float* shares = nullptr;  // [row][kMaxChosen]
};

/// What all segments of a job have in common.
struct alignas(16) JobFrame {
  int segment_count = 0;
  int blocks = 0;         // of all segments
  bool stacked = false;   // some segment reads a list
  int rows = 0;           // of the step
  int rows_per_pass = 0;  // as many as shared memory holds
  int passes = 0;
  int matrices = 0;                  // of stacks, that are read, more or less; of one row's experts exactly
  int list_number = 0;               // jobs with the same number read the same list
  const MatrixList* list = nullptr;  // of clusters
  RouteJob route;
};
struct alignas(16) Job : JobFrame {
  Segment segments[kMaxSegments];
};

/// Tiles; of a stack, counted through all listed matrices.
struct Share {
  int first = 0, end = 0;
};
/// Those of `tiles` that fall to part `own` of `parts`.
constexpr Share even_share(int tiles, int own, int parts) {
  const int each = static_cast<int>(static_cast<unsigned>(tiles) / static_cast<unsigned>(parts)),
            more = tiles - each * parts;
  const int first = own * each + (own < more ? own : more);
  return {first, first + each + (own < more ? 1 : 0)};
}
/// What block `own` of `blocks` has of a stack of which `matrices` are read: tiles of one matrix only, where
/// no block has more to do then. Rows may differ from one to the next.
constexpr Share stack_share(int tiles, int matrices, int own, int blocks) {
  const auto fewest = static_cast<int>(static_cast<unsigned>(blocks) / static_cast<unsigned>(matrices));
  const Share even = even_share(tiles * matrices, own, blocks);
  const Share first = even_share(tiles * matrices, 0, blocks);  // nobody has more
  if (first.end * fewest < tiles) return even;
  const int larger = blocks - fewest * matrices;  // matrices with a block more
  const int others = own - larger * (fewest + 1);
  const int width = others < 0 ? fewest + 1 : fewest, among = others < 0 ? own : others;
  const auto quotient = static_cast<int>(static_cast<unsigned>(among) / static_cast<unsigned>(width));
  const int matrix = quotient + (others < 0 ? 0 : larger);
  const Share share = even_share(tiles, among - quotient * width, width);
  return {matrix * tiles + share.first, matrix * tiles + share.end};
}

/// Tiles that follow one another, which the warps of a block take at once: of a stack from matrix number
/// `listed` of the list on.
struct Run {
  int listed = 0, tile = 0, count = 0;
};

/// What the warps of a block take at once: tiles that follow one another times the rows of a pass.
struct TileTurn {
  Run run;
  int first_row = 0, rows = 0;
  int half = 0;    // of the sums, which one comes first, where they are kept twice
  int more = 0;    // not 0: something follows
  int rounds = 0;  // of tiles that all warps take at once
};

/// Of warps that share tiles there are 2 ^ this groups; where matrices are bunched, so many for each of them.
constexpr int slots_log_of(int parts, bool bunched) {
  int log = bunched ? -kBunchLog : 0;
  for (; parts < kWarps; parts *= 2) ++log;
  return log;
}
/// Of a bunch the matrix that is a warp's.
constexpr int matrix_of_bunch(const Segment& segment, int warp) {
  return segment.bunch_shares == nullptr ? 0 : warp / (kWarps / kBunch);
}
/// What block `own` of `blocks` has of the tiles of the bunches of `matrices` matrices: the same ones of each
/// matrix of a bunch, counted as those of its first.
constexpr Share bunch_share(int tiles, int matrices, int own, int blocks) {
  const int bunches = matrices / kBunch;
  int bunch = 0;
  while (bunch + 1 < bunches && own >= even_share(blocks, bunch, bunches).end) ++bunch;
  const Share among = even_share(blocks, bunch, bunches);
  const Share share = even_share(tiles, own - among.first, among.end - among.first);
  return {bunch * kBunch * tiles + share.first, bunch * kBunch * tiles + share.end};
}
constexpr int rounds_of(const Segment& segment, int tiles) {
  const int slots_log = segment.slots_log;
  return (tiles + (1 << slots_log) - 1) >> slots_log;
}
/// Of the tiles of a turn those that are a warp's, and of a tile's pieces. The 16 / parts groups of warps,
/// its slots, have as many tiles as the others or one more.
struct alignas(16) WarpShare {
  int first = 0, count = 0;
  int piece = 0, piece_end = 0;
};
constexpr WarpShare warp_share(const Segment& segment, int warp, int tiles) {
  const int slots_log = segment.slots_log, slot = warp >> segment.parts_log & ((1 << slots_log) - 1),
            part = warp & ((1 << segment.parts_log) - 1);
  const int first = slot * tiles >> slots_log;
  return {.first = first,
          .count = ((slot + 1) * tiles >> slots_log) - first,
          .piece = part * segment.matrix.pieces >> segment.parts_log,
          .piece_end = (part + 1) * segment.matrix.pieces >> segment.parts_log};
}
/// The same, with the pieces counted as their columns are staged.
constexpr WarpShare staged_share(const Segment& segment, int warp, int tiles) {
  WarpShare share = warp_share(segment, warp, tiles);
  const int before = matrix_of_bunch(segment, warp) * segment.bunch_pieces;
  share.piece += before;
  share.piece_end += before;
  return share;
}
/// So many are staged.
constexpr int staged_pieces(const Segment& segment) {
  return segment.bunch_shares == nullptr ? segment.matrix.pieces : kBunch * segment.bunch_pieces;
}
constexpr int staged_cols(const Segment& segment) {
  return staged_pieces(segment) * piece_cols(segment.matrix.format);
}

/// Which segment of a product is a block's, and which of its tiles. Made by StepList::finish() for every
/// product and block; of a stack the tiles may not be known before the list is (settle_shares()).
struct alignas(16) Duty {
  int segment = -1;  // none
  int first = 0, end = 0;
  // Known: the tiles are. Learns: the list is made when the product begins. Keeps: the normed rows are this
  // block's to keep. Simple: all of it is one turn, `turn`, whose sums wait for one barrier. One row: and the
  // turn has one row, which there is a way to stage for. Few: its results are those of a single warp, and
  // nothing is kept. Eights: weights are of 8 bits. Halves: see Format. Bunch: see Segment::bunch_shares.
  static constexpr int kKnown = 1, kLearns = 2, kKeeps = 4, kSimple = 8, kOneRow = 16, kFew = 32,
                       kEights = 128;
  static constexpr int kNotStaged = 64;         // a benchmark's
  static constexpr int kStagesAlong = 1 << 23;  // the row is staged while the list is made
  static constexpr int kBunch = 1 << 24, kHalves = 1 << 25;
  /// Beside them numbers, so that a warp has to agree on one word only: ways to stage and to multiply, groups
  /// of columns with a scale in 64, and parts of the branch.
  static constexpr int kStagingBit = 8, kMultiplyingBit = 13, kGroupsBit = 18, kPartsBit = 20;
  int kind = 0;
  TileTurn turn;
  int shares = 0;  // of its warps: StepArguments::shares
  int unused[3] = {};

  constexpr bool known() const { return (kind & kKnown) != 0; }
  static constexpr int staging(int kind) { return kind >> kStagingBit & 31; }
  static constexpr int multiplying(int kind) { return kind >> kMultiplyingBit & 31; }
  static constexpr int groups(int kind) { return kind >> kGroupsBit & 3; }
  static constexpr int parts(int kind) { return kind >> kPartsBit & 7; }
};

/// A job from the point of view of a block, in shared memory.
struct alignas(16) OwnJob {
  JobFrame frame;
  Segment segment;
  WarpShare shares[kWarps];  // of a simple turn
};
inline constexpr int kJobsKept = 5;    // the product before, the one at hand, and the next three
inline constexpr int kDutiesKept = 8;  // must be there before the job can be brought
inline constexpr int kPhasesKept = 4;
inline constexpr int kListReaders = 2;  // products that read the same list follow one another

/// The parts of a product that a benchmark can leave out, to see what the others cost.
enum Skipped : int {
  kSkipNothing = 0,
  kSkipMultiply = 1,
  kSkipStage = 2,
  kSkipStream = 4,
  kSkipArrival = 8,  // one of those that all wait for: a step that cannot end, for a test
};

/// Shared memory of a block, for all phases of a step: places in bytes.
struct SharedPlan {
  int watch = 0;      // the first thing; see watch.h
  int done = 0;       // where the warps gather that are done with a phase; see meeting.h
  int arguments = 0;  // StepArguments, for functions that are not inlined
  int streams = 0;    // [kWarps] Stream; see stream.h
  int lookouts = 0;   // [kWarps] Lookout, and what it has found:
  int runs = 0;       // [kWarps][kRunsKept] TileRun
  int list = 0;       // int: the number of the list of matrices that is known; -1 = none
  int places = 0;     // [kWarps] Place; see meeting.h
  int walks = 0;      // [kWarps] TileWalk; see turn.h
  int duties = 0;     // [kDutiesKept]: product i at i % kDutiesKept
  int jobs = 0;       // [kJobsKept] OwnJob: product i at i % kJobsKept
  int phases = 0;     // [kPhasesKept]: phase i at i % kPhasesKept
  int step = 0;       // Step, without its pages
  int partial = 0;    // [2][kMaxRows][kWarps] floats: sums of squares
  int active = 0;     // [kMaxListed] ints: the matrices of the list
  int chosen = 0;     // [kMaxListed][kMaxRows] signed bytes: MatrixList::slot
  int sums = 0;       // of tiles, so many
  int sum_floats = 0;
  int ring = 0;  // [kWarps][ring_bytes()]: weights under way
  int work = 0;  // rows of a product, or what another phase needs
  int end = 0;
  int slots = 0, slot_bytes = 0;
  int arrival_bytes = 128;   // what lies before the places of a ring
  uint32_t parity_flip = 1;  // each time around a ring; 0 where nothing comes and nobody is to wait
};

}  // namespace slip::backend::cuda
