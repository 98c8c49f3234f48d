#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/bandwidth.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "backend/cpu/bandwidth.h"
#include "backend/cpu/simd-inl.h"
#include "base/buffer.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

/// Adds up all words; the sum keeps the compiler from leaving the loads out.
uint32_t read_all_target(const std::byte* from, size_t bytes, bool prefetch) {
  const DU du;
  VU sums[4] = {hn::Zero(du), hn::Zero(du), hn::Zero(du), hn::Zero(du)};
  const auto* words = reinterpret_cast<const uint32_t*>(from);
  const size_t count = bytes / 256 * 64;
  for (size_t i = 0; i < count; i += 64) {
    for (size_t line = 0; line < 4; ++line) {
      if (prefetch) __builtin_prefetch(words + i + line * 16 + 1024, 0, 0);
      for (size_t j = 0; j < 16; j += kLanes) {
        sums[line] = hn::Add(sums[line], hn::LoadU(du, words + i + line * 16 + j));
      }
    }
  }
  return hn::GetLane(hn::MaxOfLanes(du, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(read_all_target);

double time_read(ThreadPool& pool, std::span<const std::byte> memory) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const int64_t pieces = static_cast<int64_t>(memory.size()) / kPiece;
  std::atomic<uint32_t> sink{0};
  double best = 0;
  for (const bool prefetch : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      for (int64_t i = pool.next(thread, pieces); i >= 0; i = pool.next(thread, pieces)) {
        // The prefetch reaches 4 KiB past a piece; the last one stays inside.
        const std::byte* from = memory.data() + i * kPiece;
        sink += HWY_DYNAMIC_DISPATCH(read_all_target)(from, kPiece, prefetch && i + 1 < pieces);
      }
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(pieces * kPiece) / seconds.count());
  }
  return best;
}

double measure_read_bandwidth(ThreadPool& pool, std::span<const std::byte> memory) {
  constexpr size_t kLeast = size_t{512} << 20, kMost = size_t{2} << 30;
  Buffer own;
  if (memory.size() < kLeast) {
    own = Buffer(kLeast, "the bandwidth measurement");
    pool.run([&](int thread) {
      const size_t share = kLeast / static_cast<size_t>(pool.size());
      std::memset(own.data() + static_cast<size_t>(thread) * share, 1, share);
    });
    memory = {own.data(), own.size()};
  }
  memory = memory.first(std::min(memory.size(), kMost));
  double best = 0;
  for (int i = 0; i < 3; ++i) best = std::max(best, time_read(pool, memory));
  return best;
}

}  // namespace slip::backend::cpu
#endif
