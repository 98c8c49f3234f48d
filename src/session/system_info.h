// What this machine has: processor, the SIMD extensions that matter here, memory. Read from /proc when asked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace slip::session {

struct CpuInfo {
  std::string name;                   // "AMD EPYC 9654", or the architecture where the kernel does not say
  std::vector<std::string> features;  // of AVX2, FMA, AVX-512, AVX-512 VNNI, AVX-VNNI, BF16, AMX, NEON, ...
  int threads = 0;                    // this process may use
};

CpuInfo cpu_info();

/// The Highway target that run-time dispatch picks here: "AVX3_DL".
std::string simd_target();

struct MemoryInfo {
  size_t total = 0;
  size_t available =
      0;  // what may be taken now without swapping, within the control group's limit; 0 = unknown
};

MemoryInfo memory_info();

}  // namespace slip::session
