#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {
namespace {

TEST(CudaShare, EveryTileOfAStackFallsToOneBlock) {
  for (const int blocks : {1, 20, 111, 132}) {
    for (const int matrices : {1, 2, 7, 8, 31, 44, 77, 128}) {
      for (const int tiles : {1, 3, 44, 176}) {
        int next = 0;
        for (int own = 0; own < blocks; ++own) {
          const Share share = stack_share(tiles, matrices, own, blocks);
          ASSERT_EQ(share.first, next)
              << "block " << own << " of " << blocks << ", " << matrices << " matrices";
          ASSERT_GE(share.end, share.first);
          next = share.end;
        }
        EXPECT_EQ(next, tiles * matrices) << blocks << " blocks, " << matrices << " matrices of " << tiles;
      }
    }
  }
}

TEST(CudaShare, EveryTileOfABunchFallsToOneBlock) {
  for (const int blocks : {2, 20, 132}) {
    for (const int bunches : {1, 2}) {
      for (const int tiles : {1, 44, 176}) {
        int next = 0, most = 0;
        for (int own = 0; own < blocks; ++own) {
          const Share share = bunch_share(tiles, bunches * kBunch, own, blocks);
          ASSERT_GE(share.end, share.first);
          most = std::max(most, share.end - share.first);
          if (share.end == share.first) continue;
          if (next % (kBunch * tiles) == tiles) next += (kBunch - 1) * tiles;  // those of the next bunch
          ASSERT_EQ(share.first, next) << "block " << own << " of " << blocks << ", " << bunches;
          next = share.end;
        }
        EXPECT_EQ(next, (bunches - 1) * kBunch * tiles + tiles);
        EXPECT_EQ(most, (tiles + blocks / bunches - 1) / (blocks / bunches));
      }
    }
  }
}

TEST(CudaShare, NoBlockHasATileMoreThanNeeded) {
  for (const int blocks : {20, 111, 126, 132}) {
    for (const int matrices : {1, 2, 7, 8, 15, 29, 52, 83, 128}) {
      for (const int tiles : {3, 44, 176}) {
        for (int own = 0; own < blocks; ++own) {
          const Share share = stack_share(tiles, matrices, own, blocks);
          EXPECT_LE(share.end - share.first, (tiles * matrices + blocks - 1) / blocks)
              << "block " << own << " of " << blocks << ", " << matrices << " matrices of " << tiles;
        }
      }
    }
  }
}

TEST(CudaShare, BlocksKeepToOneMatrixWhereThatCostsNothing) {
  constexpr int kTiles = 44, kMatrices = 8, kBlocks = 111;
  int most = 0;
  for (int own = 0; own < kBlocks; ++own) {
    const Share share = stack_share(kTiles, kMatrices, own, kBlocks);
    ASSERT_LT(share.first, share.end);
    EXPECT_EQ(share.first / kTiles, (share.end - 1) / kTiles) << "block " << own;
    most = std::max(most, share.end - share.first);
  }
  EXPECT_EQ(most, 4);  // 3.2 on average
}

}  // namespace
}  // namespace slip::backend::cuda
