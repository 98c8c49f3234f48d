// Copies under way, and waiting: for them, for other warps of a block, and for other blocks.
#pragma once

#ifdef SLIP_RACECHECK
#include "backend/cuda/kernels/checked_barriers.h"
#endif
#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/watch.h"

namespace slip::backend::cuda {

#ifndef SLIP_CUDA_EMULATED

/// 16 bytes from global to shared memory, around the first-level cache.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}
/// The same, or zeros, for which `global` is not read.
__device__ __forceinline__ void copy_async_or_zero(void* shared, const void* global, bool real) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(real ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until all but the latest `kLeft` groups of this thread are there.
template <int kLeft>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Says what was awaited and stops the kernel.
[[noreturn]] __device__ __noinline__ inline void give_up(Awaited what, int detail) {
  const Watch& watch = *reinterpret_cast<const Watch*>(shared_memory());
  if (watch.report != nullptr) {
    *reinterpret_cast<int4*>(watch.report) =
        make_int4(static_cast<int>(what), watch.phase, static_cast<int>(blockIdx.x), detail);
    __threadfence_system();
  }
  __trap();
}

/// Bulk copies: one lane starts a copy of up to some kilobytes, of multiples of 16 bytes, whose bytes are
/// counted by a word in shared memory; the copies of one word follow one another, and whoever waits says by
/// parity which one is meant: 0 for the first, 1 for the second, 0 for the third, ... Before Hopper there are
/// none, and the lanes copy at once.
using Arrival = uint64_t;

__device__ __forceinline__ void arrival_init(Arrival* arrival) {
#if __CUDA_ARCH__ >= 900
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 900
/// True on one lane of a warp, in a way that tells the compiler so: else it expects several lanes to start
/// copies, which takes a loop.
__device__ __forceinline__ bool elected() {
  uint32_t leads;
  asm volatile("{\n .reg .pred p;\n elect.sync _|p, 0xffffffff;\n selp.u32 %0, 1, 0, p;\n}" : "=r"(leads));
  return leads != 0;
}
__device__ __forceinline__ void expect_bytes(Arrival* arrival, int bytes) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}
/// By one lane. Weights are read once per step, so they are the first to leave the second-level cache, which
/// has caches, norms and lists to keep.
__device__ __forceinline__ void start_bulk(std::byte* shared, const std::byte* global, int bytes,
                                           Arrival* arrival) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  constexpr uint64_t kEvictFirst = 0x12f0000000000000;  // what createpolicy gives
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], "
      "%4;" ::"r"(to),
      "l"(global), "r"(bytes), "r"(address), "l"(kEvictFirst)
      : "memory");
}
#endif
/// By a whole warp that is done with what lay in `shared`. Nothing where there are no bytes.
__device__ __forceinline__ void copy_bulk(std::byte* shared, const std::byte* global, int bytes,
                                          Arrival* arrival) {
  __syncwarp();
#if __CUDA_ARCH__ >= 900
  if (elected() && bytes > 0) {
    expect_bytes(arrival, bytes);
    start_bulk(shared, global, bytes, arrival);
  }
#else
  for (int at = threadIdx.x % 32 * 16; at < bytes; at += 512)
    *reinterpret_cast<uint4*>(shared + at) = __ldg(reinterpret_cast<const uint4*>(global + at));
  __syncwarp();
#endif
}
/// `rows` rows, kMost at most, that follow one another, to places `stride` bytes apart, as one arrival.
template <int kMost>
__device__ __forceinline__ void copy_bulk_rows(std::byte* shared, int stride, const std::byte* global,
                                               int bytes, int rows, Arrival* arrival) {
  __syncwarp();
#if __CUDA_ARCH__ >= 900
  if (elected()) {
    expect_bytes(arrival, rows * bytes);
#pragma unroll
    for (int row = 0; row < kMost; ++row) {
      if (row < rows) start_bulk(shared + row * stride, global + row * bytes, bytes, arrival);
    }
  }
#else
  for (int at = threadIdx.x % 32 * 16; at < rows * bytes; at += 512)
    *reinterpret_cast<uint4*>(shared + at / bytes * stride + at % bytes) =
        __ldcg(reinterpret_cast<const uint4*>(global + at));
  __syncwarp();
#endif
}
/// Between what was written in the usual way and bulk copies of it, or to where it was.
__device__ __forceinline__ void fence_bulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_arrival(Arrival* arrival, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
  const auto is_there = [&] {
    uint32_t done;
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
    return done != 0;
  };
  if (!is_there()) {
    const long long since = clock64();
    while (!is_there()) {
      if (clock64() - since > kPatienceForWeights)
        give_up(Awaited::kWeights, static_cast<int>(threadIdx.x) / 32);
    }
  }
  __syncwarp();  // lanes may have left the loop one by one
#endif
}

#ifndef SLIP_RACECHECK  // else checked_barriers.h
/// Before the first use of a number, and a __syncthreads(): how many threads will meet there.
__device__ __forceinline__ void set_up_barrier(int, int) {}  // the hardware need not know

/// Waits for the first `threads` threads that call it with this number, 1 to 15.
__device__ __forceinline__ void sync_some(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Is counted by the sync_some() of others, and goes on.
__device__ __forceinline__ void arrive_some(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
#endif

/// The warps of a block gather at a word in shared memory, which is set up for their number: each says that
/// it is there and goes on, and whoever waits sees what the others wrote before. `parity`: 0 for the first
/// time, 1 for the second, 0 for the third, ... By whole warps.
__device__ __forceinline__ void gathering_init(Arrival* gathering, int warps) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(gathering));
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(warps) : "memory");
}
__device__ __forceinline__ void gather_warp(Arrival* gathering, uint32_t parity, bool waits) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(gathering));
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    asm volatile("{\n .reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(address)
                 : "memory");
  if (!waits) return;
  for (uint32_t done = 0; done == 0;) {
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address), "r"(parity)
        : "memory");
  }
  __syncwarp();
}

/// All blocks meet: what they wrote before can be read (load_fresh) after. `counter` counts arrivals since it
/// was cleared, `target` is what it must reach.
__device__ __forceinline__ void grid_arrive(uint32_t* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
/// Returns how many are missing when it gives up: whoever waits reports it where that takes no registers from
/// the phase that begins.
__device__ __forceinline__ int grid_await(const uint32_t* counter, uint32_t target) {
  const long long since = clock64();
  for (uint32_t turn = 1;; ++turn) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    const int missing = static_cast<int>(target - value);
    if (missing <= 0) return 0;
    if (turn % 1024 == 0 && clock64() - since > kPatienceForBlocks) return missing;
  }
}
/// Adds one to a counter of finished parts and returns what it was; what the others wrote before can be read.
__device__ __forceinline__ uint32_t count_finished(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

#endif  // SLIP_CUDA_EMULATED

}  // namespace slip::backend::cuda
