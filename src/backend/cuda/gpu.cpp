#include "backend/cuda/gpu.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/watch.h"
#include "base/error.h"

namespace slip::backend::cuda {
namespace {

// compute-sanitizer's racecheck is slow with many blocks, and its barriers (checked_barriers.h) need a place.
#ifdef SLIP_RACECHECK
constexpr int kMostProcessors = 8;
constexpr size_t kSharedKept = 1024;
#else
constexpr int kMostProcessors = std::numeric_limits<int>::max();
constexpr size_t kSharedKept = 0;
#endif

double gib(size_t bytes) {
  return static_cast<double>(bytes) / 0x1p30;
}

cudaStream_t stream_of(const Gpu& gpu) {
  return static_cast<cudaStream_t>(gpu.stream());
}

}  // namespace

void fail_gpu(const std::string& sentence) {
  throw Error(ErrorKind::kRuntime, sentence);
}
void check_gpu(int status, const char* what) {
  if (status == cudaSuccess) return;
  fail(ErrorKind::kRuntime, "the GPU stopped at {}: {}", what,
       cudaGetErrorString(static_cast<cudaError_t>(status)));
}

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice ||
      (status == cudaSuccess && count == 0))
    return "this machine has no NVIDIA GPU with a driver";
  return std::string("the NVIDIA driver says: ") + cudaGetErrorString(status);
}

GpuInfo gpu_info(int device) {
  cudaDeviceProp properties;
  check_gpu(cudaGetDeviceProperties(&properties, device), "reading the device's properties");
  return {.name = properties.name,
          .processors = std::min(properties.multiProcessorCount, kMostProcessors),
          .major = properties.major,
          .minor = properties.minor,
          .memory = properties.totalGlobalMem,
          .shared_bytes = properties.sharedMemPerBlockOptin - kSharedKept};
}

size_t gpu_free_bytes(int device) {
  size_t available = 0, total = 0;
  check_gpu(cudaSetDevice(device), "choosing the device");
  check_gpu(cudaMemGetInfo(&available, &total), "asking for free memory");
  return available;
}

DeviceMemory::DeviceMemory(size_t bytes, const char* what) : size_(std::max<size_t>(bytes, 256)) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, size_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    fail(
        ErrorKind::kOutOfMemory,
        "{} need {:.2f} GiB on the GPU and {:.2f} of {:.2f} are free, {:.2f} too few; use a smaller context, "
        "fewer bits, or --device cpu",
        what, gib(size_), gib(available), gib(total), gib(size_ - std::min(size_, available)));
  }
  check_gpu(status, what);
  data_ = static_cast<std::byte*>(data);
}
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedMemory::PinnedMemory(size_t bytes, const char* what) : size_(std::max<size_t>(bytes, 256)) {
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, size_, cudaHostAllocPortable | cudaHostAllocMapped);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail(ErrorKind::kOutOfMemory, "{} need {:.2f} GiB of pinned memory, which the system refuses", what,
         gib(size_));
  }
  check_gpu(status, what);
  data_ = static_cast<std::byte*>(data);
}
PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cudaFreeHost(data_);
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

struct Gpu::Marks {
  std::vector<cudaEvent_t> events;
  ~Marks() {
    for (cudaEvent_t event : events) cudaEventDestroy(event);
  }
};

Gpu::Gpu(int device) : device_(device), marks_(std::make_unique<Marks>()) {
  if (gpu_count() == 0) fail_usage("--device cuda: {}; use --device cpu", why_no_gpu());
  if (device >= gpu_count())
    fail_usage("--device cuda:{}: this machine has {} GPUs, numbered from 0", device, gpu_count());
  check_gpu(cudaSetDevice(device), "choosing the device");
  info_ = gpu_info(device);
  cudaStream_t stream;
  check_gpu(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_ = stream;
  stuck_ = PinnedMemory(sizeof(StuckReport), "a report");
  *stuck() = {};
}
Gpu::~Gpu() {
  marks_.reset();
  cudaStreamDestroy(stream_of(*this));
}

/// A kernel that stopped itself is the reason for every error after it.
void Gpu::require(int status, const char* what) const {
  if (status == cudaSuccess) return;
  const StuckReport report = *stuck();
  if (report.what == Awaited::kNothing) return check_gpu(status, what);
  const std::string awaited = report.what == Awaited::kBlocks
                                  ? fmt::format("{} other blocks", report.detail)
                                  : fmt::format("weights of warp {}", report.detail);
  fail(ErrorKind::kRuntime,
       "the GPU gave up: block {} waited in vain for {} in phase {} of a step; please report this",
       report.block, awaited, report.phase);
}

void Gpu::to_device(std::byte* device, const void* host, size_t bytes) {
  require(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_of(*this)), "a copy to it");
}
void Gpu::to_host(void* host, const std::byte* device, size_t bytes) {
  require(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_of(*this)), "a copy from it");
}
void Gpu::copy(std::byte* to, const std::byte* from, size_t bytes) {
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(*this)), "a copy within it");
}
void Gpu::fill(std::byte* device, int value, size_t bytes) {
  require(cudaMemsetAsync(device, value, bytes, stream_of(*this)), "filling memory");
}
void Gpu::finish() {
  require(cudaStreamSynchronize(stream_of(*this)), "running a step");
}

void Gpu::mark(int number) {
  while (static_cast<int>(marks_->events.size()) <= number) {
    cudaEvent_t event;
    require(cudaEventCreate(&event), "making an event");
    marks_->events.push_back(event);
  }
  require(cudaEventRecord(marks_->events[static_cast<size_t>(number)], stream_of(*this)), "marking time");
}
double Gpu::seconds_between(int from, int to) {
  float milliseconds = 0;
  require(cudaEventElapsedTime(&milliseconds, marks_->events[static_cast<size_t>(from)],
                               marks_->events[static_cast<size_t>(to)]),
          "reading time");
  return milliseconds * 1e-3;
}

}  // namespace slip::backend::cuda
