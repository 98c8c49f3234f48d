// The clock that waits run on: retries, stalls, rate limits. Production uses the steady clock of the system.
// A test sets its own, so that a stall of a minute takes no time: a server under test moves it forward, and
// jump() skips a wait that nothing else would end.
#pragma once

#include <chrono>

namespace slip::net {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() { return std::chrono::steady_clock::now(); }
  /// Called when nothing can happen before `until`. Returns true if the clock went there by itself.
  virtual bool jump(Time until) {
    static_cast<void>(until);
    return false;
  }
};

/// The clock of the system.
Clock& real_clock();

}  // namespace slip::net
