// How often a test with made-up cases repeats: a fixed number from a fixed seed, so that it does the same on
// every machine, however slow. SLIP_TEST_ROUNDS=20 in the environment makes it 20 times as many.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace slip::test {

inline int rounds(int usual) {
  const char* factor = std::getenv("SLIP_TEST_ROUNDS");
  return usual * (factor == nullptr ? 1 : std::clamp(std::atoi(factor), 1, 10000));
}

}  // namespace slip::test
