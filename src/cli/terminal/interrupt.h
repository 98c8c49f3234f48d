// Ctrl-C while something is alive that is worth finishing properly. The first one sets a flag that the step
// loop looks at between steps; the second has its usual effect and kills, unless told otherwise.
#pragma once

#include <csignal>

#include "net/cancel.h"

namespace slip::cli {

/// Catches SIGINT for its lifetime. One at a time.
class InterruptGuard {
 public:
  enum class Second { kKills, kCounts };
  explicit InterruptGuard(Second second = Second::kKills) : InterruptGuard(second, nullptr) {}
  /// The first one also asks for this; the second kills.
  explicit InterruptGuard(net::Cancel& cancel) : InterruptGuard(Second::kKills, &cancel) {}
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;
  /// Forgets what came so far.
  void clear();

 private:
  InterruptGuard(Second second, net::Cancel* cancel);

  struct sigaction previous_ = {};
};

}  // namespace slip::cli
