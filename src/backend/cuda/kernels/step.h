// Step: what changes from one step to the next, copied to the device before it: the rows, whose caches they
// belong to and which keys they see. And KeyBlocks: how keys are cut for attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/chain.h"
#include "backend/cuda/kernels/job.h"
#include "base/scores.h"

namespace slip::backend::cuda {

class Gpu;

inline constexpr int kCachePage = 256;  // kv::kPagePositions; checked where the two meet

struct StepRow {
  int position;
  int group;
  int first[2], end[2];  // keys it sees, [first, end), of sliding and of full layers
};

/// Consecutive rows with one cache.
struct RowGroup {
  int first, count;
  int pages[2];  // where page 0 is, or would be, in Step::pages: of sliding and of full layers
  int first_key[2], end_key[2];  // of all its rows
};

/// Queries of a block of threads, and the keys it takes for them: whole blocks of keys (KeyBlocks), as far as
/// anybody sees them.
struct alignas(16) KeyShare {
  int group, kv_head, first_query, queries;
  int first, end;         // keys
  int block, block_end;   // the first block of keys, and where it ends
  int block_offset;       // blocks before the first that the group sees
  int heads;              // of queries, per kv head
  const std::byte* page;  // of the first key, without what a layer adds
};
/// What one block of threads does in the attention of all layers alike. The kernel keeps it in its copy of
/// the step, where all layers after the first find it.
struct alignas(16) KeyShares {
  static constexpr int kKept = 4;
  int heads, kv_heads;  // what they are for; 0 = nothing is there
  int count;            // of all shares
  int first;            // of those that are kept
  int teams;            // not 0: by two teams of warps (attend_teams.h)
  KeyShare kept[kKept];
};

struct alignas(16) Step {
  int rows, groups;
  KeyShares shares[2];  // of sliding and of full layers; nothing in the host's copy
  StepRow row[kMaxRows];
  RowGroup group[kMaxRows];
  int out_rows[kMaxRows];    // of the results, the row's place; -1 = it has none
  int logit_rows[kMaxRows];  // where its logits go: that place, kNowhere, or kToPick
  int best[kMaxRows];        // how many of its best tokens are wanted; 0 = all logits, or nothing
  std::byte* pages[1];       // of the groups' caches, as many as there are; see RowGroup
};

/// Fixed cuts by absolute position, so that a row's attention is split the same way in any company: short
/// blocks in the window and at the start, where parallel work is scarce, longer ones further out, where there
/// are many and merging them costs. A block of threads takes whole blocks of keys, so they stay well below
/// what falls to one of 132 at that distance: of 32,768 keys of one kv head that is 8 tiles of 32.
struct KeyBlocks {
  static constexpr int kShort = 32, kShortEnd = 2048;  // and in windows
  static constexpr int kNear = 64, kNearEnd = 8192;
  static constexpr int kMiddle = 128, kMiddleEnd = 32768;
  static constexpr int kFar = 256, kFarEnd = 131072;
  static constexpr int kFarthest = 512;
  // Blocks before the end of each.
  static constexpr int kShortCount = kShortEnd / kShort;
  static constexpr int kNearCount = kShortCount + (kNearEnd - kShortEnd) / kNear;
  static constexpr int kMiddleCount = kNearCount + (kMiddleEnd - kNearEnd) / kMiddle;
  static constexpr int kFarCount = kMiddleCount + (kFarEnd - kMiddleEnd) / kFar;

  static constexpr int of(bool sliding, int position) {
    const auto at = static_cast<unsigned>(position);  // shifts, not divisions
    if (sliding || position < kShortEnd) return static_cast<int>(at / kShort);
    if (position < kNearEnd) return kShortCount + static_cast<int>((at - kShortEnd) / kNear);
    if (position < kMiddleEnd) return kNearCount + static_cast<int>((at - kNearEnd) / kMiddle);
    if (position < kFarEnd) return kMiddleCount + static_cast<int>((at - kMiddleEnd) / kFar);
    return kFarCount + static_cast<int>((at - kFarEnd) / kFarthest);
  }
  /// First position of a block.
  static constexpr int start(bool sliding, int block) {
    if (sliding || block < kShortCount) return block * kShort;
    if (block < kNearCount) return kShortEnd + (block - kShortCount) * kNear;
    if (block < kMiddleCount) return kNearEnd + (block - kNearCount) * kMiddle;
    if (block < kFarCount) return kMiddleEnd + (block - kMiddleCount) * kFar;
    return kFarEnd + (block - kFarCount) * kFarthest;
  }
  /// The most that a window can touch, of `rows` consecutive rows.
  static constexpr int most_of_window(int window, int rows) { return (window + rows + 1) / kShort + 2; }
};

/// Where a layer's keys and values are.
struct CacheLayer {
  bool sliding = false;
  bool k_is_v = false;
  int kv_heads = 0, head_dim = 0;
  int element_bytes = 2;  // bf16, or 4: floats, to compare with references
  int64_t page_offset = 0;
};

/// Rotations by position: turn(position) = base[position / 256] * page[position % 256], cosine and sine.
struct Turns {
  const float* page = nullptr;  // [256][pairs][2]
  const float* base = nullptr;  // [pages][pairs][2]
  int pairs = 0;
};

/// Queries, keys and values of one layer, as projected: normed, turned, and keys and values stored.
struct HeadsJob {
  const Step* step = nullptr;
  int rows = 0;
  int heads = 0;  // 0 = nobody reads the queries
  bool stores = false;
  bool v_norm = true;
  float epsilon = 0;
  CacheLayer cache;
  int head_dim = 0;
  Turns turns;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float* query = nullptr;  // in place
  const float* key = nullptr;
  const float* value = nullptr;
  int64_t query_stride = 0, kv_stride = 0;
};

inline constexpr int kAttendMarks = 8;  // places in attention that can be timed

/// Attention of one layer, or, in a phase of its own, the merging of what it left of blocks of keys. Queries
/// come as projected, and are normed and turned here; so are the step's own
/// keys and values, which are not in the cache yet: whoever reads their positions makes them for himself, and
/// the first of those also stores them. Only attention over a cache of floats finds all of that done
/// (HeadsJob).
struct AttendJob {
  HeadsJob own;  // `query` is only read
  bool sliding = false;
  bool merges = false;
  bool teams = false;             // there is room for two teams (attend_teams.h); StepList::finish() decides
  int team_keys = 512;            // fewer of a block of threads are not worth two teams
  const float* k_norm = nullptr;  // of the layer that owns keys that are rebuilt from K = V
  int most_blocks = 0;            // of keys, that one row can see
  float* partials = nullptr;      // [row][head][block][head_dim]
  float* weights = nullptr;       // [row][head][block][2]: the largest score, the sum of all relative to it
  float* out = nullptr;
  int64_t out_stride = 0;
  long long* clocks = nullptr;  // [block][kAttendMarks]: when it was where; null = not asked for
};

/// Per-layer inputs: mixed = (norm(mixed * scale) + table * table_scale) * sqrt(1/2), per layer of `dim`.
struct PerLayerJob {
  int rows = 0, layers = 0, dim = 0;
  float* mixed = nullptr;
  int64_t stride = 0;
  const float* table = nullptr;
  int64_t table_stride = 0;
  const float* norm = nullptr;
  float scale = 1, table_scale = 1, epsilon = 0;
};

/// The sum that a product's input describes, made once for all blocks: the stream with its branch. Kept where
/// the input says.
struct SumJob {
  int rows = 0;
  Input in;
};

/// dense = the mixture; of wide passes.
struct CombineJob {
  int rows = 0, cols = 0;
  float* dense = nullptr;
  int64_t dense_stride = 0;
  Mixture mixture;
  float epsilon = 0;
};

/// The best clusters of each row, in ascending order, as a list of matrices: kept after kept, row after row.
struct ClusterJob {
  int rows = 0, clusters = 0, kept = 0;
  const float* scores = nullptr;
  int64_t stride = 0;
  MatrixList* list = nullptr;
};

inline constexpr int kMostPickChunks = 64;  // of a row
inline constexpr int kLeastPick = 1024;     // values of a chunk, if there are so many

/// A candidate on its way: `rank` ascends with the value (pick.h).
struct Found {
  uint32_t rank;
  int id;
};

/// The best tokens of rows that want them (Step::best): of scores by token, or by the tokens of clusters.
struct PickJob {
  int rows = 0;
  int size = 0, chunks = 1;  // values of a row, and the parts they are looked at in
  const float* scores = nullptr;
  int64_t stride = 0;
  // Of a head with clusters: row n's scores are rows n * kept .. of `scores`, `cluster_size` values each.
  const MatrixList* list = nullptr;
  const int* ordering = nullptr;  // tokens by cluster
  int kept = 0, cluster_size = 0;
  Found* found = nullptr;        // of every row chunks * kMostCandidates: its best by chunk
  uint32_t* finished = nullptr;  // [row] chunks; 0 between steps
  uint32_t* damaged = nullptr;   // [row]; 0 between steps
  BestTokens* out = nullptr;     // [place], on the host
};
/// How many parts to look at the values of a row in, to keep all blocks busy.
int pick_chunks(const Gpu& gpu, int rows, int size);

/// Reads `bytes` once.
void read_memory(Gpu& gpu, const std::byte* data, size_t bytes, float* sink);

}  // namespace slip::backend::cuda
