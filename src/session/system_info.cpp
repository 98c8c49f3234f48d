#include "session/system_info.h"

// Before Highway, so that the targets below are those of the kernels.
#include "backend/cpu/targets.h"

#include <hwy/highway.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "base/thread_pool.h"

namespace slip::session {
namespace {

// The kernel's words, and ours. Order is the order of the report.
constexpr std::pair<const char*, const char*> kFeatures[] = {
    {"avx2", "AVX2"},
    {"fma", "FMA"},
    {"f16c", "F16C"},
    {"avx_vnni", "AVX-VNNI"},
    {"avx512f", "AVX-512"},
    {"avx512_vnni", "AVX-512 VNNI"},
    {"avx512_bf16", "AVX-512 BF16"},
    {"amx_int8", "AMX INT8"},
    {"amx_bf16", "AMX BF16"},
    {"asimd", "NEON"},
    {"asimddp", "NEON dot product"},
    {"i8mm", "NEON I8MM"},
    {"bf16", "NEON BF16"},
    {"sve", "SVE"},
};

constexpr const char* architecture() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "64-bit Arm";
#else
  return "unknown";
#endif
}

/// "model name : AMD EPYC" -> {"model name", "AMD EPYC"}
std::pair<std::string, std::string> split_field(const std::string& line) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  const auto trim = [](const std::string& s) {
    const size_t begin = s.find_first_not_of(" \t");
    return begin == std::string::npos ? "" : s.substr(begin, s.find_last_not_of(" \t") - begin + 1);
  };
  return {trim(line.substr(0, colon)), trim(line.substr(colon + 1))};
}

/// A file that holds one number; `fallback` when it is missing or says "max".
size_t read_number(const char* path, size_t fallback) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : fallback;
}

}  // namespace

CpuInfo cpu_info() {
  CpuInfo info;
  info.name = architecture();
  info.threads = default_threads();
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> words;
  for (std::string line; std::getline(file, line) && words.empty();) {
    const auto [field, value] = split_field(line);
    if (field == "model name") info.name = value;
    if (field == "flags" || field == "Features") {
      std::istringstream stream(value);
      for (std::string word; stream >> word;) words.insert(word);
    }
  }
  for (const auto& [word, name] : kFeatures) {
    if (words.count(word) > 0) info.features.emplace_back(name);
  }
  return info;
}

std::string simd_target() {
  // Highway numbers better targets lower, so the best of those both compiled and present is the lowest bit.
  const int64_t usable = static_cast<int64_t>(hwy::SupportedTargets()) & static_cast<int64_t>(HWY_TARGETS);
  return hwy::TargetName(usable & -usable);
}

MemoryInfo memory_info() {
  MemoryInfo info;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const auto [field, value] = split_field(line);
    const bool total = field == "MemTotal", available = field == "MemAvailable";
    if (total || available) (total ? info.total : info.available) = std::stoull(value) * 1024;
  }
  // Inside a container the limit of its control group counts, less what it already uses.
  const size_t limit = read_number("/sys/fs/cgroup/memory.max", SIZE_MAX);
  if (limit != SIZE_MAX) {
    const size_t used = read_number("/sys/fs/cgroup/memory.current", 0);
    info.total = std::min(info.total, limit);
    info.available = std::min(info.available, limit - std::min(limit, used));
  }
  return info;
}

}  // namespace slip::session
