#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstring>

namespace slip {
namespace {

TEST(ThreadPool, run_calls_every_thread_once_and_the_caller_is_thread_0) {
  for (const int size : {1, 2, 5}) {
    ThreadPool pool(size);
    EXPECT_EQ(pool.size(), size);
    std::vector<int> calls(static_cast<size_t>(size));
    std::thread::id first;
    for (int round = 0; round < 60; ++round) {
      pool.run([&](int thread) {
        ++calls[static_cast<size_t>(thread)];
        if (thread == 0) first = std::this_thread::get_id();
      });
    }
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), 60));
    EXPECT_EQ(first, std::this_thread::get_id());
  }
}

TEST(ThreadPool, what_was_written_before_a_barrier_is_seen_by_all_after_it) {
  for (const int size : {1, 2, 3}) {
    ThreadPool pool(size);
    std::vector<int64_t> values(
        static_cast<size_t>(size));  // plain memory: a data race would show under TSan
    std::vector<int64_t> wrong(static_cast<size_t>(size));
    pool.run([&](int thread) {
      const auto me = static_cast<size_t>(thread);
      for (int64_t step = 1; step <= 800; ++step) {
        values[me] = step;
        pool.barrier();
        for (const int64_t value : values) wrong[me] += value != step;
        pool.barrier();
      }
    });
    EXPECT_EQ(wrong, std::vector<int64_t>(static_cast<size_t>(size)));
  }
}

TEST(ThreadPool, next_deals_every_index_once_and_starts_anew_after_each_barrier) {
  constexpr int64_t kWork = 37;
  for (const int size : {1, 2, 4}) {
    ThreadPool pool(size);
    std::vector<std::atomic<int>> taken(kWork);
    constexpr int kRuns = 20, kPhases = 30;
    for (int run = 0; run < kRuns; ++run) {
      pool.run([&](int thread) {
        for (int phase = 0; phase < kPhases; ++phase) {
          for (int64_t i = pool.next(thread, kWork); i >= 0; i = pool.next(thread, kWork))
            ++taken[static_cast<size_t>(i)];
          pool.barrier();
        }
      });
    }
    for (const auto& count : taken) EXPECT_EQ(count.load(), kRuns * kPhases) << size << " threads";
  }
}

TEST(ThreadPool, next_starts_anew_in_a_run_without_barriers) {
  ThreadPool pool(2);
  for (int run = 0; run < 50; ++run) {
    std::atomic<int64_t> sum{0};
    pool.run([&](int thread) {
      for (int64_t i = pool.next(thread, 10); i >= 0; i = pool.next(thread, 10)) sum += i;
    });
    ASSERT_EQ(sum.load(), 45);
  }
}

TEST(ThreadPool, threads_that_went_to_sleep_wake_up_for_the_next_run) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int run = 0; run < 5; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.run([&](int) { ++calls; });
  }
  EXPECT_EQ(calls.load(), 10);
}

// Lives as long as the thread that made it.
class Presence {
 public:
  static inline std::atomic<int> begun = 0, alive = 0;
  Presence() { ++begun, ++alive; }
  ~Presence() { --alive; }
};

TEST(ThreadPool, a_pool_that_ends_while_its_threads_spin_or_sleep_ends_them) {
  constexpr int kPools = 20;
  for (int i = 0; i < kPools; ++i) {
    {
      const ThreadPool never_runs(3);
      ThreadPool pool(3);
      pool.run([](int thread) {
        if (thread > 0) thread_local const Presence presence;
      });
      EXPECT_EQ(Presence::alive.load(), 2);
      if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(Presence::alive.load(), 0);
  }
  EXPECT_EQ(Presence::begun.load(), 2 * kPools);
}

TEST(ThreadPool, there_is_at_least_one_thread_by_default) {
  EXPECT_GE(default_threads(), 1);
}

int allowed_now() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

TEST(ThreadPool, one_as_large_as_the_machine_keeps_its_threads_apart_and_others_leave_them_free) {
  if (default_threads() < 2) GTEST_SKIP() << "this machine has one processor";
  std::thread([] {  // whoever calls run() keeps its place, so this must not be the thread of the other tests
    cpu_set_t every;
    std::memset(&every, 0xff, sizeof(every));
    sched_setaffinity(0, sizeof(every), &every);  // they may have given theirs, and so this one, a place
    const int all = default_threads();
    if (allowed_now() != all) return;  // fewer were allowed to the whole program
    std::atomic<int> placed{0};
    ThreadPool(all - 1).run([&](int) { placed += allowed_now() == 1; });
    EXPECT_EQ(placed.load(), 0);
    std::vector<int> cpus(static_cast<size_t>(all), -1);
    ThreadPool(all).run([&](int thread) {
      placed += allowed_now() == 1;
      cpus[static_cast<size_t>(thread)] = sched_getcpu();
    });
    EXPECT_EQ(placed.load(), all);
    std::sort(cpus.begin(), cpus.end());
    EXPECT_EQ(std::unique(cpus.begin(), cpus.end()), cpus.end());
    EXPECT_EQ(default_threads(), all);  // of the process, though its caller now has one processor
  })
      .join();
}

}  // namespace
}  // namespace slip
