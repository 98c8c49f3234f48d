// What a thread that has waited too long leaves in memory of the host before it stops the kernel. A wait that
// cannot end would hold the GPU for good; so every wait of a step gives up after seconds, where phases take
// microseconds. Costs a look at the clock in loops that wait anyway.
#pragma once

namespace slip::backend::cuda {

// In ticks of the clock, about 2 per nanosecond. Whoever waits for weights gives up first, so that the report
// names him and not the blocks that wait for him.
inline constexpr long long kPatienceForWeights = 3'000'000'000, kPatienceForBlocks = 6'000'000'000;

enum class Awaited : int { kNothing, kBlocks, kWeights };

struct alignas(16) StuckReport {
  Awaited what;
  int phase;  // of the step's list
  int block;
  int detail;  // how many blocks have not arrived; the warp that waits for weights
};

/// At the start of shared memory.
struct Watch {
  StuckReport* report;
  int phase;    // that the block has begun, or waits to begin
  int missing;  // blocks, at the meeting before it
};

}  // namespace slip::backend::cuda
