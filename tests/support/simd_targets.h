// Runs a test body once for every instruction set this build has kernels for and this machine can run, by
// hiding the better ones from Highway's dispatch.
#pragma once

#include <hwy/targets.h>

#include <gtest/gtest.h>

namespace slip::test {

template <typename F>
void for_each_simd_target(F body) {
  const int64_t supported = hwy::SupportedTargets();
  int runs = 0;
  for (int64_t left = supported; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
    ++runs;
  }
  hwy::GetChosenTarget().Update(supported);
  EXPECT_GE(runs, 1);
}

}  // namespace slip::test
