// How fast the device reads its memory: every thread sums 16-byte loads, four under way.
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {
namespace {

constexpr int kThreads = 512;

__global__ void __launch_bounds__(kThreads) read_kernel(const std::byte* data, int64_t count, float* sink) {
  const auto* from = reinterpret_cast<const uint4*>(data);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t mixed = 0;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const uint4 a = load_fresh(from + i), b = load_fresh(from + i + stride);
    const uint4 c = load_fresh(from + i + 2 * stride), d = load_fresh(from + i + 3 * stride);
    mixed ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) mixed ^= load_fresh(from + i).x;
  if (mixed == 0x12345678u) *sink = 1;  // so that the loads are not left out
}

}  // namespace

void read_memory(Gpu& gpu, const std::byte* data, size_t bytes, float* sink) {
  launch(gpu, {.blocks = 2 * gpu.info().processors, .threads = kThreads}, read_kernel, data,
         static_cast<int64_t>(bytes / 16), sink);
}

}  // namespace slip::backend::cuda
