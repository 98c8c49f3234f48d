// The sandbox of a decode worker: after enter_sandbox() the process can compute, take memory up to its limit
// and end. It cannot open, read or write a file, start a process or a thread, or reach the network; whatever
// else it asks of the kernel kills it.
//
// Under sanitizers the resource limits are off, since their shadow memory needs terabytes of address space
// and much private memory; the filter of system calls stays.
#pragma once

#include <cstdint>

namespace slip::media {

struct SandboxLimits {
  uint64_t memory_bytes = 0;  // private memory (RLIMIT_DATA), what is mapped already included
  uint32_t cpu_seconds = 0;
  int32_t parent = 0;  // the worker ends with it
};

/// Returns false where the system refuses the sandbox; the caller must then not decode.
bool enter_sandbox(const SandboxLimits& limits);

}  // namespace slip::media
