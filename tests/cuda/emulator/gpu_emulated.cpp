// Gpu without a GPU: device memory is the heap, filled with NaN; work is done at once.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "backend/cuda/gpu.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cuda {
namespace {

std::byte* take(size_t bytes) {
  auto* data = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::memset(data, 0xff, bytes);
  return data;
}

}  // namespace

void fail_gpu(const std::string& sentence) {
  throw Error(ErrorKind::kRuntime, sentence);
}
void check_gpu(int, const char*) {}

int gpu_count() {
  return 1;
}
std::string why_no_gpu() {
  return "";
}
GpuInfo gpu_info(int) {
  return {.name = "emulated",
          .processors = 4,
          .major = 9,
          .minor = 0,
          .memory = size_t{1} << 34,
          .shared_bytes = 227 << 10};
}
size_t gpu_free_bytes(int) {
  return size_t{1} << 33;
}

DeviceMemory::DeviceMemory(size_t bytes, const char*) : data_(take(bytes)), size_(bytes) {}
DeviceMemory::~DeviceMemory() {
  std::free(data_);
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
PinnedMemory::PinnedMemory(size_t bytes, const char*) : data_(take(bytes)), size_(bytes) {}
PinnedMemory::~PinnedMemory() {
  std::free(data_);
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
struct Gpu::Marks {};
Gpu::Gpu(int device) : device_(device), info_(gpu_info(device)) {}
Gpu::~Gpu() = default;
void Gpu::to_device(std::byte* device, const void* host, size_t bytes) {
  std::memcpy(device, host, bytes);
}
void Gpu::to_host(void* host, const std::byte* device, size_t bytes) {
  std::memcpy(host, device, bytes);
}
void Gpu::copy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
void Gpu::fill(std::byte* device, int value, size_t bytes) {
  std::memset(device, value, bytes);
}
void Gpu::finish() {}
void Gpu::mark(int) {}
double Gpu::seconds_between(int, int) {
  return 0;
}

}  // namespace slip::backend::cuda
