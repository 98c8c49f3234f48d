// The phases of attention: which code takes which heads, and the space they need.
#pragma once

#include "backend/cuda/kernels/attend.h"
#include "backend/cuda/kernels/attend_merge.h"
#include "backend/cuda/kernels/attend_teams.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
__device__ __noinline__ void attend_heads(AttendPhase phase) {
  Attention<kDim, kOne>(phase).run();
}

template <int kDim>
__device__ __forceinline__ void attend_with(const AttendPhase& phase, int way) {
  if ((way & AttendWay::kOne) != 0) return attend_heads<kDim, true>(phase);
  attend_heads<kDim, false>(phase);
}

/// `way`: AttendWay, the same for all lanes.
__device__ __forceinline__ void attend_sized(const AttendPhase& phase, int way) {
  switch (way >> AttendWay::kSizeBit) {
    case 4: return attend_with<16>(phase, way);
    case 5: return attend_with<32>(phase, way);
    case 6: return attend_with<64>(phase, way);
    case 7: return attend_with<128>(phase, way);
    case 8: return attend_with<256>(phase, way);
    default: return attend_with<512>(phase, way);
  }
}

/// Of a block of threads that has more shares than are kept, which are none for two teams.
__device__ __noinline__ inline void attend_many(AttendPhase phase, int way) {
  const KeyShares& shares = phase.shares();
#pragma unroll 1
  while (true) {
    attend_sized(phase, way);
    const int next = shares.first + KeyShares::kKept;
    if (next >= shares.count) return;
    keep_shares(phase, next);
  }
}

/// Either phase, from before the meeting on. Nobody may be reading what lies in the space to work in. Part of
/// the step's own code, and nothing is left to do after a call: it would have to wait on the stack.
__device__ __forceinline__ void attend(const AttendPhase& phase, int way) {
  if ((way & AttendWay::kMerges) != 0) return merge_attention(phase);
  ShareState state = share_state(phase);
  if (state == ShareState::kUnknown) [[unlikely]] {
    keep_shares(phase, 0);
    state = share_state(phase);
  }
  if (state == ShareState::kMany) return attend_many(phase, way);
  if (state == ShareState::kTeams) return attend_teams(phase);
  attend_sized(phase, way);
}

/// Shared memory of either phase.
template <int kDim>
int attend_space(bool k_is_v, int pairs) {
  const int bytes = k_is_v ? attend_plan<kDim, true>(pairs).end : attend_plan<kDim, false>(pairs).end;
  return bytes > kMergeBytes ? bytes : kMergeBytes;
}

}  // namespace slip::backend::cuda
