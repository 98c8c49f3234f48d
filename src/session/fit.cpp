#include "session/fit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "session/model_report.h"
#include "session/system_info.h"

namespace slip::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kContextStep = 1024;
constexpr size_t kMeasured = size_t{16} << 20;  // of all threads together
constexpr size_t kLine = 64;
constexpr int kRounds = 4;
// Of the bandwidth, what decoding reaches on the processors of docs/benchmarks.md.
constexpr double kReached = 0.8;

#if defined(__x86_64__)
constexpr bool kCanFlush = true;
void flush_line(const std::byte* line) {
  __builtin_ia32_clflush(line);
}
void wait_for_flushes() {
  __builtin_ia32_mfence();
}
#elif defined(__aarch64__)
constexpr bool kCanFlush = true;
void flush_line(const std::byte* line) {
  asm volatile("dc civac, %0" ::"r"(line) : "memory");
}
void wait_for_flushes() {
  asm volatile("dsb sy" ::: "memory");
}
#else
constexpr bool kCanFlush = false;
void flush_line(const std::byte*) {}
void wait_for_flushes() {}
#endif

uint64_t sum_of(const std::vector<std::byte>& memory) {
  uint64_t sums[4] = {};
  for (size_t at = 0; at + kLine <= memory.size(); at += kLine) {
    uint64_t words[kLine / 8];
    std::memcpy(words, memory.data() + at, kLine);
    for (size_t i = 0; i < kLine / 8; ++i) sums[i % 4] += words[i];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

/// One thread's part: reads its memory as often as told, all threads at once, and says how long the best took.
double seconds_to_read(std::vector<std::byte>& memory, std::atomic<int>& waiting, int threads,
                       std::atomic<uint64_t>& sink) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t at = 0; at < memory.size(); at += kLine) flush_line(memory.data() + at);
    wait_for_flushes();
    ++waiting;
    while (waiting < threads * (round + 1)) std::this_thread::yield();
    const auto start = Clock::now();
    sink += sum_of(memory);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

Fit fit_of(const checkpoint::Checkpoint& checkpoint, size_t available) {
  const ModelReport report = report_on(checkpoint);
  const auto needed = [&](int64_t context) { return memory_needed(report, checkpoint.config, context); };
  Fit fit;
  fit.available = available;
  fit.longest = checkpoint.config.max_positions;
  const int64_t shortest = std::min(kShortContext, fit.longest);
  fit.needed = needed(shortest);
  fit.bytes_per_token =
      report.streamed_bytes + (report.caches.empty() ? 0 : report.caches.front().read_bytes);
  if (available == 0 || needed(fit.longest) <= available) {
    fit.context = fit.longest;
  } else if (fit.needed <= available) {
    // The most steps that fit: needed() grows with the context.
    int64_t fitting = shortest / kContextStep, too_many = fit.longest / kContextStep + 1;
    while (too_many - fitting > 1) {
      const int64_t middle = (fitting + too_many) / 2;
      (needed(middle * kContextStep) <= available ? fitting : too_many) = middle;
    }
    fit.context = std::max(shortest, fitting * kContextStep);
  }
  return fit;
}

double quick_read_bandwidth() {
  if (!kCanFlush) return 0;
  const int threads = std::max(1, cpu_info().threads);
  const size_t share = std::max(kMeasured / static_cast<size_t>(threads) / kLine * kLine, kLine);
  std::atomic<int> waiting{0};
  std::atomic<uint64_t> sink{0};
  std::vector<double> seconds(static_cast<size_t>(threads));
  std::vector<std::thread> readers;
  for (int i = 0; i < threads; ++i) {
    readers.emplace_back([&, i] {
      std::vector<std::byte> memory(share, std::byte{1});
      seconds[static_cast<size_t>(i)] = seconds_to_read(memory, waiting, threads, sink);
    });
  }
  for (std::thread& reader : readers) reader.join();
  double bandwidth = 0;
  for (const double one : seconds) bandwidth += static_cast<double>(share) / one;
  return bandwidth;
}

double expected_speed(const Fit& fit, double bandwidth) {
  if (bandwidth <= 0 || fit.bytes_per_token == 0) return 0;
  return kReached * bandwidth / static_cast<double>(fit.bytes_per_token);
}

}  // namespace slip::session
