// A step that cannot end stops itself and says so. In a process of its own: afterwards CUDA is lost to it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "cuda/gpu_fixture.h"
#include "cuda/model_fixture.h"

namespace slip::backend::cuda {
namespace {

class CudaWatchDeathTest : public test::GpuTest {};

TEST_F(CudaWatchDeathTest, AStepWithABlockThatNeverArrivesGivesUpAndSaysSo) {
  if (test::kEmulated) GTEST_SKIP() << "the emulated device sees for itself when no thread can go on";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        try {
          StepList list;
          for (int i = 0; i < 3; ++i) list.add_empty(0);
          list.finish(gpu(), 1);
          list.start(gpu(), nullptr, false, kSkipArrival);
          gpu().finish();
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(3), "waited in vain for 1 other blocks in phase 0");
}

}  // namespace
}  // namespace slip::backend::cuda
