// Child: one run of the decode worker, from its start to its end. Its owner waits for it; leaving earlier
// kills it. The child gets an empty environment, no file of ours but the two it works on, and its own process
// group, so that Ctrl-C reaches it only through us.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <stop_token>

#include "media/descriptor.h"
#include "media/worker_program.h"

namespace slip::media {

class Child {
 public:
  /// Starts it with the files as its descriptors 3 and 4. Where that fails the child has not started().
  Child(const WorkerCommand& command, const Descriptor& input, const Descriptor& output);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool started() const { return pid_ > 0; }

  enum class End { kExited, kSignal, kUnknown, kTimedOut, kCancelled };
  struct Outcome {
    End end = End::kUnknown;
    int code = 0;  // exit code or signal
  };
  /// Waits until it has ended, and kills it at the deadline or when asked to stop.
  Outcome wait(std::chrono::steady_clock::time_point deadline, std::stop_token stop);

 private:
  bool ended_within(int milliseconds, int cancel);
  void kill_now();
  Outcome reap();

  pid_t pid_ = -1;
  Descriptor watch_;  // readable once the child has ended; invalid on kernels without pidfd
  Outcome outcome_;
};

}  // namespace slip::media
