// A wish to stop, passed down to whatever may take long. A signal handler may set it: it is one atomic store.
// Whoever waits looks at it ten times a second.
#pragma once

#include <atomic>

namespace slip::net {

class Cancel {
 public:
  void request() noexcept { wanted_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return wanted_.load(std::memory_order_relaxed); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> wanted_{false};
};

}  // namespace slip::net
