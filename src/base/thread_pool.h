// A fixed set of threads for the phases of a step. run() gives every thread the same function with its index;
// inside it, barrier() is a spinning rendezvous of all of them and
// next() deals out chunks of work. Between runs the threads spin for a moment and then sleep, so an idle
// process uses no CPU.
//
// A pool as large as the set of processors keeps each of its threads on one of them, the thread that calls
// run() from the first call on. Threads that one starts later inherit its processor.
//
// Invariants: run() is called from one thread at a time; that caller is thread 0; nothing in here allocates.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace slip {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// Calls `work(context, thread)` once on every thread and returns when all have finished.
  void run(void (*work)(void* context, int thread), void* context);

  template <typename F>
  void run(F&& work) {
    run([](void* context, int thread) { (*static_cast<std::remove_reference_t<F>*>(context))(thread); },
        &work);
  }

  /// Waits until every thread of the current run has arrived. All threads must call it equally often.
  void barrier();

  /// Deals out the indices 0 .. count - 1 between two barriers; -1 when none are left. A thread first gets
  /// its own share, a contiguous range in ascending order, so that what lies together in memory is read by
  /// one thread in one stream; then it helps with what is left of the others'. Every thread must pass the
  /// same count; what is done must not depend on who does it.
  int64_t next(int thread, int64_t count);

 private:
  void worker(int thread);

  const int size_;
  const std::vector<int> cpus_;  // one for each thread; empty = wherever the scheduler puts them
  std::thread::id caller_;       // who has been put on cpus_[0]
  std::vector<std::thread> threads_;
  void (*work_)(void*, int) = nullptr;
  void* context_ = nullptr;

  alignas(64) std::atomic<uint64_t> round_{0};  // counts runs; workers wait for it to change
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};  // counts barriers
  struct alignas(64) Taken {
    std::atomic<int64_t> count[2]{};  // of a thread's share, for this barrier phase and the next
  };
  std::vector<Taken> taken_;
  std::atomic<bool> stop_{false};
  std::atomic<int> sleeping_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

/// Threads to use when the user names none: the processors this process may run on, or as many as its
/// container pays for.
int default_threads();

}  // namespace slip
