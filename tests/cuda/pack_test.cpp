#include "backend/cuda/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

using tensor::DType;
using test::OwnedMatrix;

std::vector<std::byte> pack_all(const OwnedMatrix& source, const PackedMatrix& packed, int64_t tiles) {
  std::vector<std::byte> all(packed.bytes());
  ThreadPool pool(2);
  pack(source.matrix, nullptr, packed, 0, tiles, all.data(), pool);
  return all;
}

/// A stack of 64 x 2880: half a piece at the end of every tile.
struct Stack {
  static constexpr int kRows = 64, kCount = 3;
  OwnedMatrix source = test::random_affine_matrix(4, 64, DType::kBf16, kRows* kCount, 2880, 3);
  PackedMatrix packed = plan(source.matrix, kRows);
  int64_t tiles = int64_t{packed.tiles} * packed.count;
};

TEST(CudaPack, APieceIsFoundWhereTheWalkThroughItsTileComesBy) {
  Stack stack;
  for (const int parts : {1, 4, 16}) {
    stack.packed.parts = parts;
    const std::byte base{};
    for (int tile = 0; tile < stack.packed.tiles; ++tile) {
      PieceWalk walk(stack.packed, &base, tile);
      for (int piece = 0; piece < stack.packed.pieces; ++piece) {
        EXPECT_EQ(walk.at() - &base, stack.packed.offset(tile, piece)) << parts << " parts";
        if (tile + 1 < stack.packed.tiles) {
          EXPECT_EQ(stack.packed.offset(tile, piece) + walk.tile_step(),
                    stack.packed.offset(tile + 1, piece));
        }
        walk.next(stack.packed);
      }
    }
  }
}

TEST(CudaPack, ALayoutWithMorePartsThanPiecesHasEmptyOnes) {
  const OwnedMatrix source = test::random_affine_matrix(4, 64, DType::kBf16, 48, 320, 4);
  PackedMatrix packed = plan(source.matrix, 48);
  packed.parts = 16;
  int pieces = 0, bytes = 0;
  for (int part = 0; part < packed.parts; ++part) {
    pieces += packed.part_begin(part + 1) - packed.part_begin(part);
    bytes += packed.part_bytes(part);
  }
  EXPECT_EQ(pieces, packed.pieces);
  EXPECT_EQ(bytes, packed.tile_bytes);
}

TEST(CudaPack, TilesPackedAFewAtATimeGoWhereAllAtOnceWouldPutThem) {
  Stack stack;
  for (const int parts : {1, 4, 16}) {
    stack.packed.parts = parts;
    const std::vector<std::byte> all = pack_all(stack.source, stack.packed, stack.tiles);
    for (const int64_t at_once : {1, 3, 7}) {
      std::vector<std::byte> got(all.size(), std::byte{0x5a});
      for (int64_t first = 0; first < stack.tiles; first += at_once) {
        const int64_t end = std::min(stack.tiles, first + at_once);
        std::vector<std::byte> some(static_cast<size_t>((end - first) * stack.packed.tile_bytes));
        ThreadPool pool(2);
        pack(stack.source.matrix, nullptr, stack.packed, first, end, some.data(), pool);
        int64_t moved = 0;
        for (const PackedRange& range : ranges_of(stack.packed, first, end)) {
          std::memcpy(&got[static_cast<size_t>(range.device)], &some[static_cast<size_t>(range.host)],
                      static_cast<size_t>(range.bytes));
          moved += range.bytes;
        }
        EXPECT_EQ(moved, static_cast<int64_t>(some.size()));
      }
      EXPECT_EQ(got, all) << parts << " parts, " << at_once << " at once";
    }
  }
}

TEST(CudaPack, WholeMatricesAreOneRange) {
  const Stack stack;
  const auto ranges = ranges_of(stack.packed, 0, stack.tiles);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].bytes, static_cast<int64_t>(stack.packed.bytes()));
}

}  // namespace
}  // namespace slip::backend::cuda
