// Staging (see stage.h) of rows whose input is of a kind that is known when the kernel is compiled. Small
// products are all about waiting: everything is under way before any of it is used, and stays in registers.
// The same sums in the same order as the Stager's. A single row, the case of plain decoding, is part of the
// step's own code, and reads its norms before blocks meet.
#pragma once

#include "backend/cuda/kernels/row_sum.h"
#include "backend/cuda/kernels/stager.h"
#include "backend/cuda/kernels/turn.h"

namespace slip::backend::cuda {

/// Ways to stage rows, as Segment::staging: which of them it is, times four, plus the turns. 0 = none fits.
__host__ __device__ constexpr int staging(Branch branch, bool normed, int turns) {
  return static_cast<int>(branch) * 8 + (normed ? 4 : 0) + turns;
}
inline constexpr int kLastStaging = staging(Branch::kBunches, true, kMixTurns);
/// The one that fits a segment.
__host__ inline int staging_of(const Segment& segment) {
  const Input& in = segment.in;
  const Branch branch = branch_of(in);
  const int turns = (staged_cols(segment) + kTurnCols - 1) / kTurnCols;
  if (in.rows == nullptr || turns > kMostTurns) return 0;
  if (in.branch != nullptr && (in.branch_norm == nullptr || in.branch_parts > kMaxSlices)) return 0;
  if (segment.normed && segment.norm == nullptr) return 0;
  if (branch == Branch::kChoices) return 0;
  if (branch == Branch::kBunches && (!segment.normed || turns > kMixTurns)) return 0;
  return staging(branch, segment.normed, turns);
}

/// Where a thread's columns go as operands, of its first turn: what put_four() and put_group() find out each
/// time. Of a group of columns, whose threads add up a sum of each of `rows` rows, thread `own` has that of
/// row own % rows in the end. The first of them puts its high part, the second one the low part.
struct PutPlaces {
  int words;   // of row 0; others are at words ^ row * kRowBytes
  int biases;  // of the part of a sum it puts
  int scales;  // of halves, of row 0: of the stretch that the warp has
  bool puts, low;
  int in_piece_log;
  static constexpr int kRowBytes = 64;
  __device__ __forceinline__ int row_sum_bytes() const { return sum_bytes(1 << in_piece_log, 1); }

  /// `tiles`, `tile_rows`: column tiles, and rows of one.
  __device__ __forceinline__ PutPlaces(const Stage& stage, bool fours, int groups, int thread, int tiles,
                                       int tile_rows, int rows)
      : in_piece_log(fours ? groups : max(groups, 1) - 1) {
    const int col = 4 * thread, t = col % 8 / 2;
    words = stage.rows + col / 32 * tiles * 512 + (t ^ swizzle(col / 32)) * 16 + col / 16 % 2 * 8 +
            col / 8 % 2 * 4;
    const int own = thread & (group_lanes(groups) - 1), row = own % rows;
    const int group = groups == 1 ? col / 64 : col / 32, in_piece = 1 << in_piece_log;
    puts = own < 2 * rows;
    low = own >= rows;
    biases = stage.biases + ((group >> in_piece_log) * tiles * tile_rows + row) * row_sum_bytes() +
             ((group & (in_piece - 1)) + (low ? in_piece : 0)) * 2;
    scales = stage.scales + thread / 32 * scale_bytes(tiles);
  }
};

/// What rows are staged with, beside their segment.
struct Staging {
  const StepArguments& step;
  Meeting meeting;
  StagedRows rows;
  Stage stage;
  int kind;  // of the duty

  __device__ __forceinline__ const int8_t* chosen() const {
    return shared_at<const int8_t>(step.plan.chosen);
  }
  __device__ __forceinline__ float* partial() const { return shared_at<float>(step.plan.partial); }
  __device__ __forceinline__ void meet_others() const { meeting.hold(step); }
  /// Of the weights; where there are groups.
  __device__ __forceinline__ bool fours() const { return (kind & Duty::kEights) == 0; }
};

/// `kRows` rows at a time; kHalves: as halves.
template <int kAllTiles, bool kHalves, int kRows, int kTurns, Branch kAdded, bool kNormed>
struct KnownRows : RowSum<kRows, kTurns, kAdded> {
  using Sum = RowSum<kRows, kTurns, kAdded>;
  using Sum::thread, Sum::col, Sum::cols, Sum::x, Sum::partial;
  const Segment& segment;
  static constexpr int kTiles = column_tiles(like(kHalves), kAllTiles),
                       kTileRows = rows_of_tile(like(kHalves));
  const int padded = segment.space.padded, groups;
  const PutPlaces places;
  typename Sum::Four weights = {};

  __device__ __forceinline__ KnownRows(const Segment& staged, const Staging& how)
      : Sum(staged.in, how.partial(), Duty::parts(how.kind)),
        segment(staged),
        groups(Duty::groups(how.kind)),
        places(how.stage, how.fours(), groups, thread, kTiles, kTileRows, kRows) {}

  __device__ __forceinline__ void load_weights() {
    Sum::load_weights();
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if constexpr (kNormed) weights[i] = read_weights(segment.norm, col + i * kTurnCols, cols);
    }
  }

  /// As RowSum::sum_up().
  __device__ __forceinline__ void run(int first, int left, int row, bool keeps) {
    this->sum_up(first, left, row, keeps);
    stage_sum(first, left, row, keeps);
  }
  /// The second part of that: the sums, which may be on their way, become operands.
  __device__ __forceinline__ void stage_sum(int first, int left, int row, bool keeps) {
    float* squares = partial + kWarps * kMaxRows;
    SquareSum sum;
    if constexpr (kNormed) {
      if constexpr (kRows == 1) {
        sum.value = Sum::squares_in(x[0]);
      } else {
        this->leave_squares(squares, x, first);
      }
      weigh();
      if (keeps) this->keep(segment.keep_normed, segment.keep_normed_stride, row, left);
    }
    put(first, sum);
    if constexpr (kNormed && kRows == 1) {
      if (thread % 32 == 0) *partial_of(squares, first, thread / 32) = sum.value;
    }
  }

 private:
  /// The sum of a warp's squares, as warp_sum() makes it, a step at a time beside those of another sum: two
  /// shuffles under way take as long as one. Nothing of several rows, whose shuffles are shared already.
  struct SquareSum {
    float value = 0;
    __device__ __forceinline__ void step(int mask) {
      if constexpr (kNormed && kRows == 1) value += shuffle_xor(value, mask);
    }
    __device__ __forceinline__ void all_steps() {
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2) step(mask);
    }
  };
  __device__ __forceinline__ void weigh() {
    const float scale = segment.norm_scale;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 &weight = weights[i], y = x[r][i];
        x[r][i] = make_float4(y.x * weight.x * scale, y.y * weight.y * scale, y.z * weight.z * scale,
                              y.w * weight.w * scale);
      }
    }
  }
  /// The rows as operands, as put_four(), put_scale() and put_group() do it; where they go is known before.
  __device__ __forceinline__ void put(int first, SquareSum& squares) const {
    const int tile = first / kTileRows, above = first % kTileRows;  // rows
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (i * kTurnCols + (col & ~127) >= padded) {  // the same for a whole warp
        if (i == 0) squares.all_steps();
        break;
      }
      const bool inside = i * kTurnCols + col < padded;
      float sums[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int place =
            (places.words ^ (above + r) * PutPlaces::kRowBytes) + (i * kTurnCols / 32 * kTiles + tile) * 512;
        if constexpr (kHalves) {
          const HalfScale scale(x[r][i]);
          const HalfFour four(x[r][i], scale);
          sums[r] = four.sum;
          if (inside) {
            *shared_at<uint32_t>(place) = four.one;
            *shared_at<uint32_t>(place ^ 16) = four.two;
          }
          if (thread % 32 == 0)
            shared_at<float>(places.scales + i * (kTurnCols / kStretchCols) *
                                                 scale_bytes(kTiles))[tile * kTileRows + above + r] =
                scale.back;
        } else {
          sums[r] = sum_of(x[r][i]);
          const auto [one, two] = staged_four(x[r][i], staged_scale(groups));
          if (inside) {
            *shared_at<uint32_t>(place) = one.high;
            *shared_at<uint32_t>(place ^ 16) = two.high;
            *shared_at<uint32_t>(place + 256) = one.low;
            *shared_at<uint32_t>((place ^ 16) + 256) = two.low;
          }
        }
      }
      if (!kHalves && groups == 0) {
        if (i == 0) squares.all_steps();
        continue;
      }
      SquareSum none;
      const int before = (i * kTurnCols / 64 * groups >> places.in_piece_log) * kTiles * kTileRows;
      put_sums(sums, inside, places.biases + (before + first) * places.row_sum_bytes(),
               i == 0 ? squares : none);
    }
  }
  /// Sums of a thread's columns, of each row, to their groups; `place`: of those that it puts.
  __device__ __forceinline__ void put_sums(const float (&sums)[kRows], bool inside, int place,
                                           SquareSum& squares) const {
    // Each shuffle adds up half of the sums that are left, until a thread has one of them.
    float left[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) left[r] = sums[r];
    int mask = 1;
#pragma unroll
    for (int count = kRows / 2; count > 0; count /= 2, mask *= 2) {
      const bool upper = (thread & mask) != 0;
#pragma unroll
      for (int r = 0; r < count; ++r) {
        const float low = left[2 * r], high = left[2 * r + 1];
        left[r] = (upper ? high : low) + shuffle_xor(upper ? low : high, mask);
      }
    }
#pragma unroll
    for (; mask < 8; mask *= 2) {
      const float more = shuffle_xor(left[0], mask);
      squares.step(16 / mask);
      left[0] += more;
    }
    const float more = shuffle_xor(left[0], 8);
    squares.step(2);
    if (groups == 1) left[0] += more;
    squares.step(1);
    const Split total = split_bf16(left[0], 0);
    if (inside && places.puts)
      *shared_at<uint16_t>(place) = static_cast<uint16_t>(places.low ? total.low : total.high);
  }
};

/// Of the input, the row that is the first of the pass; -1 = none. `chosen`: of a stack, [listed][kMaxRows].
__device__ __forceinline__ int source_of(const Input& in, const int8_t* chosen, const StagedRows& rows) {
  if (in.slots == 0) return rows.first;
  const int slot = chosen[rows.listed * kMaxRows + rows.first];
  return slot < 0 ? -1 : rows.first * in.slots + slot;
}

/// Rows of a pass, kRows at a time, in way kWay. What does not depend on other blocks is read before they are
/// met.
template <int kTiles, bool kHalves, int kWay, int kRows>
__device__ __forceinline__ void stage_by(const Staging& how, const Segment& segment) {
  KnownRows<kTiles, kHalves, kRows, kWay % 4, static_cast<Branch>(kWay / 8), (kWay & 4) != 0> some{segment,
                                                                                                   how};
  some.load_weights();
  some.aim(source_of(segment.in, how.chosen(), how.rows), how.rows.first);
  how.meet_others();
  if constexpr (kRows == 1) {
    some.run(0, 1, how.rows.first, block_here() == 0);
  } else {
#pragma unroll 1
    for (int n = 0; n < how.rows.count; n += kRows)
      some.run(n, how.rows.count - n, how.rows.first + n, block_here() == 0);
  }
}

/// All rows of a pass in the way the duty says, one of kFrom .. kTo - 1, which halves until one is left;
/// false where none fits. `kOne`: it is a single row, which may have experts to be mixed; of several as many
/// at a time as registers hold.
template <int kTiles, bool kHalves, bool kOne, int kFrom = 0, int kTo = kLastStaging + 1>
__device__ __forceinline__ bool stage_in_way(const Staging& how, const Segment& segment) {
  constexpr bool kMixes = kFrom / 8 == static_cast<int>(Branch::kBunches);
  if constexpr (kTo - kFrom > 1) {
    constexpr int kMiddle = (kFrom + kTo) / 2;
    if (Duty::staging(how.kind) < kMiddle)
      return stage_in_way<kTiles, kHalves, kOne, kFrom, kMiddle>(how, segment);
    return stage_in_way<kTiles, kHalves, kOne, kMiddle, kTo>(how, segment);
  } else if constexpr (kFrom % 4 == 0 || (kMixes && (!kOne || (kFrom & 4) == 0))) {  // mixtures are normed
    return false;
  } else if constexpr (kOne) {
    stage_by<kTiles, kHalves, kFrom, 1>(how, segment);
    return true;
  } else {
    // Of four there are too few registers for a branch of two turns, and for halves of three.
    constexpr bool kFew = (kFrom % 4 > 1 && kFrom / 8 == static_cast<int>(Branch::kRow)) ||
                          (kHalves && kFrom % 4 == kMostTurns);
    if (kFew || (kTiles == 1 && uniform(how.rows.count) == 2)) {
      stage_by<kTiles, kHalves, kFrom, 2>(how, segment);
    } else if constexpr (!kFew) {
      stage_by<kTiles, kHalves, kFrom, 4>(how, segment);
    }
    return true;
  }
}

/// Any number of rows of any input. Not inlined: it would take registers from the single row.
template <int kTiles, bool kHalves>
__device__ __noinline__ void stage_any(const Segment* staged, int arguments, Meeting meeting, StagedRows rows,
                                       int kind) {
  const Segment& segment = *staged;
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const Staging how{step, meeting, rows, staged_in(segment.space, column_tiles(like(kHalves), kTiles)), kind};
  if (stage_in_way<kTiles, kHalves, false>(how, segment)) return;
  how.meet_others();
  Stager<kTiles, kHalves, 4, 1> stager{segment,   how.chosen(),      rows,
                                       how.stage, block_here() == 0, how.partial()};
  if (stager.at_once()) {
    stager.run_once();
  } else {
    stager.run_blocks();
  }
}

}  // namespace slip::backend::cuda
