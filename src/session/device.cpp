#include "session/device.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/human.h"
#include "session/model_report.h"
#include "session/system_info.h"
#ifdef SLIP_HAVE_CUDA
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gpu.h"
#endif

namespace slip::session {
namespace {

#ifdef SLIP_HAVE_CUDA
int gpu_count() {
  return backend::cuda::gpu_count();
}
std::string why_no_gpu() {
  return backend::cuda::why_no_gpu();
}
size_t gpu_free_bytes(int index) {
  return backend::cuda::gpu_free_bytes(index);
}
std::unique_ptr<backend::Backend> load_cuda(int index, const checkpoint::Checkpoint& checkpoint,
                                            const BackendOptions& options,
                                            const std::function<void(double)>& progress) {
  backend::cuda::CudaOptions cuda;
  cuda.device = index;
  cuda.threads = options.threads;
  cuda.kv_storage = options.kv;
  cuda.max_rows = std::max(cuda.max_rows, options.step_rows);
  cuda.progress = progress;
  if (options.activations == Activations::k16) cuda.rows_as = backend::cuda::RowsAs::kPairs;
  if (options.activations == Activations::k11) cuda.rows_as = backend::cuda::RowsAs::kHalves;
  return backend::cuda::load(checkpoint.config, checkpoint.weights, cuda);
}
#else
int gpu_count() {
  return 0;
}
std::string why_no_gpu() {
  return "this build has no CUDA executor";
}
size_t gpu_free_bytes(int) {
  return 0;
}
std::unique_ptr<backend::Backend> load_cuda(int, const checkpoint::Checkpoint&, const BackendOptions&,
                                            const std::function<void(double)>&) {
  fail_usage("--device cuda: {}", why_no_gpu());
}
#endif

backend::cpu::CpuOptions cpu_options(const BackendOptions& options) {
  using backend::cpu::ActivationMode;
  if (options.activations == Activations::k11)
    fail_usage("--activations 11 is for GPUs, and this is the CPU, which has 16, 8 and float");
  backend::cpu::CpuOptions cpu;
  cpu.threads = options.threads;
  cpu.activations = options.activations == Activations::k8       ? ActivationMode::kInt8
                    : options.activations == Activations::kFloat ? ActivationMode::kFloat
                                                                 : ActivationMode::kInt16;
  cpu.kv_storage = options.kv;
  cpu.max_rows = std::max(cpu.max_rows, options.step_rows);
  return cpu;
}

Device choose_auto(size_t needed) {
  if (gpu_count() == 0) return {.note = why_no_gpu()};
  const size_t available = gpu_free_bytes(0);
  if (available < needed)
    return {.note = fmt::format("the GPU has {} free and the model needs {}", bytes_text(available),
                                bytes_text(needed))};
  return {.cuda = true};
}

// A model that is swapped or kills its neighbours helps nobody; a cache of one page is the least it needs.
void require_memory(const checkpoint::Checkpoint& checkpoint, size_t needed) {
  const size_t available = memory_info().available;
  if (available == 0 || needed <= available) return;
  fail(ErrorKind::kOutOfMemory,
       "{} needs {} of memory and {} are available; close other programs, or use a model with fewer bits or "
       "parameters",
       checkpoint.path, bytes_text(needed), bytes_text(available));
}

}  // namespace

Device choose_device(const BackendOptions& options, size_t needed) {
  if (options.device == DeviceKind::kCpu) return {};
  const bool automatic = options.device == DeviceKind::kAuto;
  if (automatic && options.wants_cpu())
    return {.note = fmt::format("--activations {} is for the CPU", name_of(options.activations))};
  if (automatic) return choose_auto(needed);
  const int index = options.device_index, count = gpu_count();
  const std::string name = index == 0 ? "cuda" : fmt::format("cuda:{}", index);
  if (count == 0) fail_usage("--device {}: {}; use --device cpu", name, why_no_gpu());
  if (index >= count)
    fail_usage("--device {}: this machine has {} GPU{}, numbered from 0", name, count, count == 1 ? "" : "s");
  if (options.wants_cpu())
    fail_usage("--activations {} is for the CPU; a GPU has 16 and 11", name_of(options.activations));
  return {.cuda = true, .index = index};
}

LoadedBackend load_backend(const checkpoint::Checkpoint& checkpoint, const BackendOptions& options,
                           const Progress& progress) {
  const ModelReport report = report_on(checkpoint);
  const size_t needed = memory_needed(report, checkpoint.config, kv::kPagePositions, options.kv);
  const auto share = [&progress, total = report.packed_bytes](double done) {
    if (progress) progress(static_cast<size_t>(done * static_cast<double>(total)), total);
  };
  Device device = choose_device(options, needed);
  if (device.cuda) {
    try {
      return {load_cuda(device.index, checkpoint, options, share), ""};
    } catch (const Error& error) {
      const bool other_device_helps =
          error.kind() != ErrorKind::kRuntime && error.kind() != ErrorKind::kUsage;
      if (options.device != DeviceKind::kAuto || !other_device_helps) throw;
      device = {.note = error.what()};
    }
  }
  backend::cpu::CpuOptions cpu = cpu_options(options);
  require_memory(checkpoint, needed);
  cpu.progress = share;
  return {backend::cpu::load(checkpoint.config, checkpoint.weights, cpu),
          options.device == DeviceKind::kAuto ? device.note : ""};
}

}  // namespace slip::session
