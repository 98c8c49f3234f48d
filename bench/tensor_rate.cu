// What the tensor cores of this GPU give, alone: the clock under load, mma.sync by warps and independent
// sums, wgmma with row operands from registers, and whether wgmma gives the bits of mma.sync.
#include "tensor_rate.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/wide_group.h"
#include "base/noise.h"

namespace slip::backend::cuda {
namespace {

struct Rate {
  long long clocks = 0, nanoseconds = 0;
};

__device__ __forceinline__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

constexpr int kTurns = 4096;

template <int kChains>
__global__ void mma_rate(Rate* rate, float* out) {
  float sums[kChains][4] = {};
  const uint32_t lane = threadIdx.x;
  const uint32_t a[4] = {lane & 1, lane & 2, lane & 4, lane & 8};
  __syncthreads();
  const long long from = clock64(), since = nanoseconds();
  for (int turn = 0; turn < kTurns / kChains; ++turn) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) mma(sums[i], a, lane + i, lane);
  }
  const long long to = clock64(), until = nanoseconds();
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += sums[i][0] + sums[i][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *rate = {to - from, until - since};
}

/// As in a wide product of bf16: 32 mma with 8 column operands and 4 row operands from shared memory.
template <bool kLoads>
__global__ void __launch_bounds__(512, 1) mma_loads_rate(Rate* rate, float* out) {
  float sums[16][4] = {};
  const auto* shared = reinterpret_cast<const uint4*>(shared_memory());
  for (int i = static_cast<int>(threadIdx.x); i < 4096; i += static_cast<int>(blockDim.x))
    reinterpret_cast<uint4*>(shared_memory())[i] = make_uint4(i, 0, i, 0);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint4 x[8] = {}, a[4] = {};
  const long long from = clock64(), since = nanoseconds();
  for (int turn = 0; turn < kTurns / 32; ++turn) {
    if (kLoads || turn == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = shared[((turn + warp) % 16 * 8 + i) * 32 + lane];
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = shared[((turn + warp / 4) % 16 * 8 + i) * 32 + lane];
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const uint4& row = a[i % 2 * 2 + step];
        const uint32_t words[4] = {row.x, row.y, row.z, row.w};
        mma(sums[i], words, step == 0 ? x[i / 2].x : x[i / 2].z, step == 0 ? x[i / 2].y : x[i / 2].w);
      }
    }
  }
  const long long to = clock64(), until = nanoseconds();
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += sums[i][0] + sums[i][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *rate = {to - from, until - since};
}

template <bool kLoads>
void time_mma_loads(Gpu& gpu, Rate* rate, float* out) {
  allow_shared(mma_loads_rate<kLoads>, 65536);
  for (const int warps : {4, 8, 16}) {
    for (int i = 0; i < 3; ++i)
      launch(gpu, {.blocks = 132, .threads = warps * 32, .shared_bytes = 65536}, mma_loads_rate<kLoads>, rate,
             out);
    gpu.finish();
    Rate got;
    gpu.to_host(&got, reinterpret_cast<const std::byte*>(rate), sizeof(got));
    gpu.finish();
    std::printf("mma.sync, operands %s: %2d warps an SM: %5.2f clocks per mma and scheduler (%5.1f TFLOPS)\n",
                kLoads ? "from shared memory" : "in registers", warps,
                static_cast<double>(got.clocks) / kTurns / (warps / 4),
                4096e-3 * kTurns * warps * 132 / static_cast<double>(got.nanoseconds));
  }
}

template <int kChains>
void time_mma(Gpu& gpu, Rate* rate, float* out) {
  for (const int warps : {4, 8, 16}) {
    for (int i = 0; i < 3; ++i)
      launch(gpu, {.blocks = 132, .threads = warps * 32}, mma_rate<kChains>, rate, out);
    gpu.finish();
    Rate got;
    gpu.to_host(&got, reinterpret_cast<const std::byte*>(rate), sizeof(got));
    gpu.finish();
    std::printf(
        "mma.sync: %2d warps an SM, %2d sums: %5.2f clocks per mma and scheduler (%.2f GHz, %5.1f TFLOPS)\n",
        warps, kChains, static_cast<double>(got.clocks) / kTurns / (warps / 4),
        static_cast<double>(got.clocks) / static_cast<double>(got.nanoseconds),
        4096e-3 * kTurns * warps * 132 / static_cast<double>(got.nanoseconds));
  }
}

/// Columns of 8 values, 16 bytes each, side by side; `lbo` and `sbo` between neighbours along k and n.
__device__ __forceinline__ uint64_t describe(uint32_t address, int lbo, int sbo) {
  return static_cast<uint64_t>(address >> 4 & 0x3fff) | static_cast<uint64_t>(lbo >> 4) << 16 |
         static_cast<uint64_t>(sbo >> 4) << 32;
}
template <int kTiles, bool kFolds>
__global__ void __launch_bounds__(384, 1) wgmma_rate(Rate* rate, float* out) {
  float raw[kTiles][4] = {}, sums[kTiles][4] = {};
  auto* shared = reinterpret_cast<uint32_t*>(shared_memory());
  for (int i = static_cast<int>(threadIdx.x); i < 16384; i += static_cast<int>(blockDim.x)) shared[i] = 0;
  group_publish();
  __syncthreads();
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t lane = threadIdx.x;
  const float scale = __uint_as_float(0x3f800000u + (lane & 3));
  uint32_t a[4] = {lane & 1, lane & 2, lane & 4, lane & 8};
  const long long from = clock64(), since = nanoseconds();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  for (int turn = 0; turn < kTurns / 4; ++turn) {
    group_begin(raw);
#pragma unroll
    for (int step = 0; step < 4; ++step)
      group_mma_async<true, false>(
          raw, a, describe(address + (turn % 8 * 4 + step) * kTiles * 256 % 32768, 128, 256));
    group_commit();
    group_end(raw);
    if constexpr (kFolds) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[tile][i] = fmaf(scale, raw[tile][i], sums[tile][i]);
          raw[tile][i] = scale;
        }
      }
    }
  }
#endif
  const long long to = clock64(), until = nanoseconds();
  float sum = 0;
  for (int tile = 0; tile < kTiles; ++tile)
    sum += raw[tile][0] + raw[tile][3] + sums[tile][0] + sums[tile][2] + sums[tile][1] + sums[tile][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (blockIdx.x == 0 && threadIdx.x == 0) *rate = {to - from, until - since};
}

template <int kTiles, bool kFolds>
void time_wgmma(Gpu& gpu, Rate* rate, float* out) {
  allow_shared(wgmma_rate<kTiles, kFolds>, 65536);
  for (const int warps : {4, 8, 12}) {
    for (int i = 0; i < 3; ++i)
      launch(gpu, {.blocks = 132, .threads = warps * 32, .shared_bytes = 65536}, wgmma_rate<kTiles, kFolds>,
             rate, out);
    gpu.finish();
    Rate got;
    gpu.to_host(&got, reinterpret_cast<const std::byte*>(rate), sizeof(got));
    gpu.finish();
    std::printf("wgmma n%d%s: %2d warps an SM: %6.1f clocks each (%.2f GHz, %5.1f TFLOPS)\n", kTiles * 8,
                kFolds ? ", added up after four" : "", warps,
                static_cast<double>(got.clocks) / kTurns / (warps / 4),
                static_cast<double>(got.clocks) / static_cast<double>(got.nanoseconds),
                512e-3 * 8 * kTiles * kTurns * warps * 132 / static_cast<double>(got.nanoseconds));
  }
}

/// Operands of one k16 step: a [64][16], b [64][16] bf16, c [64][64]; both ways, `steps` steps in a row.
__global__ void both_ways(const uint32_t* a, const uint32_t* b, const float* c, int steps, float* by_mma,
                          float* by_wgmma) {
  auto* shared = reinterpret_cast<uint32_t*>(shared_memory());
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32,
            g = lane / 4, t = lane % 4;
  a += blockIdx.x * steps * 512, b += blockIdx.x * steps * 512, c += blockIdx.x * 4096;
  by_mma += blockIdx.x * 4096, by_wgmma += blockIdx.x * 4096;
  for (int i = static_cast<int>(threadIdx.x); i < steps * 512; i += 128) {
    const int step = i / 512, n = i / 8 % 64, word = i % 8;
    shared[step * 512 + n / 8 * 64 + word / 4 * 32 + n % 8 * 4 + word % 4] = b[i];
  }
  group_publish();
  __syncthreads();
  float one[8][4], two[8][4];
  for (int tile = 0; tile < 8; ++tile) {
    for (int i = 0; i < 4; ++i)
      one[tile][i] = two[tile][i] = c[(warp * 16 + g + i / 2 * 8) * 64 + tile * 8 + 2 * t + i % 2];
  }
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  for (int step = 0; step < steps; ++step) {
    const uint32_t* rows = a + step * 512 + warp * 128;
    uint32_t words[4] = {rows[g * 8 + t], rows[(g + 8) * 8 + t], rows[g * 8 + t + 4],
                         rows[(g + 8) * 8 + t + 4]};
    for (int tile = 0; tile < 8; ++tile) {
      const uint32_t* column = b + step * 512 + (tile * 8 + g) * 8;
      mma(one[tile], words, column[t], column[t + 4]);
    }
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    group_begin(two);
    group_mma_async<true, false>(two, words, describe(address + step * 2048, 128, 256));
    group_commit();
    group_end(two);
#endif
  }
  for (int tile = 0; tile < 8; ++tile) {
    for (int i = 0; i < 4; ++i) {
      const int at = (warp * 16 + g + i / 2 * 8) * 64 + tile * 8 + 2 * t + i % 2;
      by_mma[at] = one[tile][i];
      by_wgmma[at] = two[tile][i];
    }
  }
}

uint32_t bf16_noise(uint64_t seed, uint64_t i, int spread) {
  const uint64_t bits = keyed_bits(seed, i);
  // Sign and fraction of any kind, exponents around one.
  return static_cast<uint32_t>((bits & 0x807f) |
                               ((127 - spread / 2 + (bits >> 20) % static_cast<uint64_t>(spread + 1)) << 7));
}

void compare(Gpu& gpu, const char* name, int steps, int spread_a, int spread_b, bool codes) {
  constexpr int kBlocks = 512;
  std::vector<uint32_t> a(size_t(kBlocks * steps * 512)), b(a.size());
  std::vector<float> c(size_t(kBlocks) * 4096), one(c.size()), two(c.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto code = [&](uint64_t k) {
      return codes ? 0x4300u | static_cast<uint32_t>(keyed_bits(5, k) & 15) : bf16_noise(5, k, spread_a);
    };
    a[i] = code(2 * i) | code(2 * i + 1) << 16;
    b[i] = bf16_noise(6, 2 * i, spread_b) | bf16_noise(6, 2 * i + 1, spread_b) << 16;
  }
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = static_cast<float>((keyed_uniform(7, i) - 0.5) * (codes ? 1000.0 : 8.0));
  DeviceMemory da(a.size() * 4, "a"), db(b.size() * 4, "b"), dc(c.size() * 4, "c"), d1(c.size() * 4, "d"),
      d2(c.size() * 4, "d");
  gpu.to_device(da.data(), a.data(), da.size());
  gpu.to_device(db.data(), b.data(), db.size());
  gpu.to_device(dc.data(), c.data(), dc.size());
  launch(gpu, {.blocks = kBlocks, .threads = 128, .shared_bytes = 32768}, both_ways,
         reinterpret_cast<const uint32_t*>(da.data()), reinterpret_cast<const uint32_t*>(db.data()),
         reinterpret_cast<const float*>(dc.data()), steps, reinterpret_cast<float*>(d1.data()),
         reinterpret_cast<float*>(d2.data()));
  gpu.to_host(one.data(), d1.data(), d1.size());
  gpu.to_host(two.data(), d2.data(), d2.size());
  gpu.finish();
  size_t differ = 0, unlike = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    differ += one[i] != two[i] ? 1 : 0;
    unlike += !(std::abs(one[i] - two[i]) <= 1e-3f * std::abs(one[i]) + 1e-2f) ? 1 : 0;
  }
  std::printf("bits, %s, %d steps: %zu of %zu differ, %zu of them by much (first %g %g)\n", name, steps,
              differ, one.size(), unlike, one[0], two[0]);
}

}  // namespace

void time_tensor_cores(Gpu& gpu) {
  DeviceMemory rate(sizeof(Rate), "rate"), out(size_t{132} * 1024 * 4, "out");
  auto* to = reinterpret_cast<Rate*>(rate.data());
  auto* sums = reinterpret_cast<float*>(out.data());
  time_mma<1>(gpu, to, sums);
  time_mma<2>(gpu, to, sums);
  time_mma<4>(gpu, to, sums);
  time_mma<8>(gpu, to, sums);
  time_mma<16>(gpu, to, sums);
  time_mma_loads<false>(gpu, to, sums);
  time_mma_loads<true>(gpu, to, sums);
  time_wgmma<8, false>(gpu, to, sums);
  time_wgmma<8, true>(gpu, to, sums);
  time_wgmma<16, false>(gpu, to, sums);
  time_wgmma<16, true>(gpu, to, sums);
  compare(gpu, "codes", 1, 0, 6, true);
  compare(gpu, "codes", 4, 0, 6, true);
  compare(gpu, "codes, wide range", 4, 0, 30, true);
  compare(gpu, "floats", 1, 6, 6, false);
  compare(gpu, "floats", 8, 6, 6, false);
  compare(gpu, "floats, wide range", 1, 30, 30, false);
  compare(gpu, "floats, wide range", 8, 30, 30, false);
}

}  // namespace slip::backend::cuda
