// What tests of the CUDA backend share: a device, or a reason to skip, and memory on it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/pack.h"
#include "support/memory_tensor.h"

namespace slip::test {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (backend::cuda::gpu_count() == 0) GTEST_SKIP() << "no GPU: " << backend::cuda::why_no_gpu();
  }
  backend::cuda::Gpu& gpu() {
    if (gpu_ == nullptr) {
      gpu_ = std::make_unique<backend::cuda::Gpu>(0);
      backend::cuda::prepare_steps(*gpu_);
    }
    return *gpu_;
  }

 private:
  std::unique_ptr<backend::cuda::Gpu> gpu_;
};

inline backend::cuda::DeviceMemory upload(backend::cuda::Gpu& gpu, const std::vector<float>& values) {
  backend::cuda::DeviceMemory memory(values.size() * sizeof(float), "test data");
  gpu.to_device(memory.data(), values.data(), values.size() * sizeof(float));
  gpu.finish();
  return memory;
}

inline std::vector<float> download(backend::cuda::Gpu& gpu, const backend::cuda::DeviceMemory& memory,
                                   size_t count) {
  std::vector<float> values(count);
  gpu.to_host(values.data(), memory.data(), count * sizeof(float));
  gpu.finish();
  return values;
}

inline const float* floats(const backend::cuda::DeviceMemory& memory) {
  return reinterpret_cast<const float*>(memory.data());
}
/// `count` values of noise(), times `scale`.
inline std::vector<float> noise(uint64_t seed, size_t count, float scale) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = noise(seed, i) * scale;
  return values;
}

inline backend::cuda::PackedMatrix upload_matrix(
    backend::cuda::Gpu& gpu, const tensor::Matrix& source, int64_t rows, const tensor::Matrix* other,
    backend::cuda::DeviceMemory& memory, backend::cuda::RowsAs rows_as = backend::cuda::RowsAs::kPairs) {
  backend::cuda::PackedMatrix packed = backend::cuda::plan(source, rows, other, rows_as);
  std::vector<std::byte> host(packed.bytes());
  ThreadPool pool(2);
  backend::cuda::pack(source, other, packed, 0, int64_t{packed.tiles} * packed.count, host.data(), pool);
  memory = backend::cuda::DeviceMemory(host.size(), "test data");
  gpu.to_device(memory.data(), host.data(), host.size());
  gpu.finish();
  packed.data = memory.data();
  return packed;
}

}  // namespace slip::test
