#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/check.h"

namespace slip {

namespace {

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// About 50 us of spinning before a waiting thread lets others run: a decode step has hundreds of barriers a
// few microseconds apart, so a thread that slept between them would cost more than the work it waits for.
constexpr int kSpinsBeforeYield = 2000;
// About a millisecond between runs, the time a sampler and a detokenizer take, before a worker goes to sleep.
constexpr int kYieldsBeforeSleep = 2000;

template <typename Done>
void spin_until(Done done) {
  for (int spins = 0; !done(); ++spins) {
    if (spins < kSpinsBeforeYield) {
      pause_cpu();
    } else {
      std::this_thread::yield();
    }
  }
}

std::vector<int> read_allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Of the process: asked for once, before a pool puts the thread that asks on one of them.
const std::vector<int>& allowed_cpus() {
  static const std::vector<int> cpus = read_allowed_cpus();
  return cpus;
}

// Processors' worth of time that a container may use, rounded up; 0 = no limit. More threads than that are
// stopped in the middle of a step, all at once.
int allowed_time() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;  // "max 100000" is no number
  return static_cast<int>(std::min(std::ceil(quota / period), 4096.0));
}

// Where a pool takes every processor there is, each thread gets its own. Left to itself, the scheduler puts
// two threads on one processor as soon as another program keeps a second one busy, and every barrier between
// them then waits for a change of threads: with a compiler running beside it, a small model was twenty times
// slower that way. With processors to spare it does better than we could.
std::vector<int> places(int threads) {
  std::vector<int> cpus = allowed_cpus();
  if (threads < 2 || static_cast<size_t>(threads) != cpus.size()) cpus.clear();
  return cpus;
}

void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);  // a refusal changes nothing but speed
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : size_(threads), cpus_(places(threads)), taken_(static_cast<size_t>(threads)) {
  SLIP_CHECK(threads >= 1);
  for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { worker(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_release);
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run(void (*work)(void*, int), void* context) {
  if (!cpus_.empty() && caller_ != std::this_thread::get_id()) {
    stay_on(cpus_[0]);
    caller_ = std::this_thread::get_id();
  }
  work_ = work;
  context_ = context;
  round_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  work(context, 0);
  barrier();
}

void ThreadPool::barrier() {
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    for (Taken& taken : taken_) taken.count[(phase + 1) & 1].store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  spin_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

int64_t ThreadPool::next(int thread, int64_t count) {
  const uint32_t parity = phase_.load(std::memory_order_relaxed) & 1;
  for (int i = 0; i < size_; ++i) {
    const int owner = (thread + i) % size_;
    const int64_t begin = count * owner / size_, end = count * (owner + 1) / size_;
    auto& taken = taken_[static_cast<size_t>(owner)].count[parity];
    if (taken.load(std::memory_order_relaxed) >= end - begin) continue;
    const int64_t index = begin + taken.fetch_add(1, std::memory_order_relaxed);
    if (index < end) return index;
  }
  return -1;
}

void ThreadPool::worker(int thread) {
  if (!cpus_.empty()) stay_on(cpus_[static_cast<size_t>(thread)]);
  uint64_t seen = 0;
  for (;;) {
    for (int spins = 0; spins < kSpinsBeforeYield + kYieldsBeforeSleep; ++spins) {
      if (round_.load(std::memory_order_acquire) != seen) break;
      if (stop_.load(std::memory_order_acquire)) return;
      if (spins < kSpinsBeforeYield) {
        pause_cpu();
      } else {
        std::this_thread::yield();
      }
    }
    if (round_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return stop_.load() || round_.load(std::memory_order_seq_cst) != seen; });
      sleeping_.fetch_sub(1, std::memory_order_relaxed);
      if (stop_.load() && round_.load() == seen) return;
    }
    seen = round_.load(std::memory_order_acquire);
    work_(context_, thread);
    barrier();
  }
}

int default_threads() {
  const auto cpus = static_cast<int>(allowed_cpus().size());
  const int threads = cpus > 0 ? cpus : static_cast<int>(std::thread::hardware_concurrency());
  const int time = allowed_time();
  return std::max(1, time > 0 ? std::min(threads, time) : threads);
}

}  // namespace slip
