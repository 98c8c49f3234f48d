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
__device__ __forceinline__ void attend_with(const AttendPhase& phase) {
  if (phase.job().own.cache.k_is_v) return attend_heads<kDim, true>(phase);
  attend_heads<kDim, false>(phase);
}

__device__ __forceinline__ void attend_kept(const AttendPhase& phase) {
  if (uniform(phase.shares().teams) != 0) return attend_teams(phase);
  switch (phase.job().own.cache.head_dim) {
    case 16: return attend_with<16>(phase);
    case 32: return attend_with<32>(phase);
    case 64: return attend_with<64>(phase);
    case 128: return attend_with<128>(phase);
    case 256: return attend_with<256>(phase);
    default: return attend_with<512>(phase);
  }
}

/// Of a block of threads that has more shares than are kept.
__device__ __noinline__ inline void attend_many(AttendPhase phase) {
  const KeyShares& shares = phase.shares();
#pragma unroll 1
  while (true) {
    attend_kept(phase);
    const int next = shares.first + KeyShares::kKept;
    if (next >= shares.count) return;
    keep_shares(phase, next);
  }
}

/// Either phase, from before the meeting on. Nobody may be reading what lies in the space to work in. Part of
/// the step's own code, and nothing is left to do after a call: it would have to wait on the stack.
__device__ __forceinline__ void attend(const AttendPhase& phase) {
  if (uniform(phase.job().merges ? 1 : 0) != 0) return merge_attention(phase);
  if (uniform(has_first_shares(phase) ? 1 : 0) == 0) keep_shares(phase, 0);
  if (uniform(phase.shares().count) > KeyShares::kKept) return attend_many(phase);
  attend_kept(phase);
}

/// Shared memory of either phase.
template <int kDim>
int attend_space(bool k_is_v, int pairs) {
  const int bytes = k_is_v ? attend_plan<kDim, true>(pairs).end : attend_plan<kDim, false>(pairs).end;
  return bytes > kMergeBytes ? bytes : kMergeBytes;
}

}  // namespace slip::backend::cuda
