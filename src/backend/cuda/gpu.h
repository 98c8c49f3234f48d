// Gpu: the CUDA runtime as far as the backend needs it, in C++ terms: memory with an owner, one stream of
// work, and errors as slip::Error. gpu.cpp implements it; tests/cuda/emulator has an
// implementation without a GPU. Not thread safe; all work of one Gpu goes to one stream, in order.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace slip::backend::cuda {

struct StuckReport;  // kernels/watch.h

struct GpuInfo {
  std::string name;
  int processors = 0;        // streaming multiprocessors
  int major = 0, minor = 0;  // compute capability
  size_t memory = 0;         // bytes on the card
  size_t shared_bytes = 0;   // of shared memory that one block can have
};

/// Throws Error(kRuntime) with `sentence`. Here because device compilers choke on the formatting library.
[[noreturn]] void fail_gpu(const std::string& sentence);
/// The same unless a status of the CUDA runtime is success.
void check_gpu(int status, const char* what);

/// Devices that this process can use; 0 without a driver.
int gpu_count();
/// Why gpu_count() is 0: one clause for people, "there is no NVIDIA driver on this machine".
std::string why_no_gpu();
GpuInfo gpu_info(int device);
size_t gpu_free_bytes(int device);

/// Memory on the device. Throws Error(kOutOfMemory) that says how much is missing.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(size_t bytes, const char* what);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Memory of the host that the device reads and writes directly, at the same address.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(size_t bytes, const char* what);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class Gpu {
 public:
  /// Throws Error(kUsage) when there is no such device.
  explicit Gpu(int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuInfo& info() const { return info_; }
  int device() const { return device_; }

  void to_device(std::byte* device, const void* host, size_t bytes);
  void to_host(void* host, const std::byte* device, size_t bytes);
  void copy(std::byte* to, const std::byte* from, size_t bytes);  // both on the device
  void fill(std::byte* device, int value, size_t bytes);
  void clear(std::byte* device, size_t bytes) { fill(device, 0, bytes); }
  /// Waits for all work. Throws Error(kRuntime) when something went wrong on the device.
  void finish();

  /// Marks of time in the stream, numbered; seconds between two of them after finish().
  void mark(int number);
  double seconds_between(int from, int to);

  void* stream() const { return stream_; }  // cudaStream_t
  /// Where kernels that wait for something that does not come say so, before they stop.
  StuckReport* stuck() const { return reinterpret_cast<StuckReport*>(stuck_.data()); }

 private:
  void require(int status, const char* what) const;

  int device_;
  GpuInfo info_;
  PinnedMemory stuck_;
  void* stream_ = nullptr;
  struct Marks;
  std::unique_ptr<Marks> marks_;
};

}  // namespace slip::backend::cuda
