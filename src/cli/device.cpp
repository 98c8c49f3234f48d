#include "cli/device.h"

#include "base/error.h"
#include "cli/output.h"
#include "cli/parser.h"
#ifdef SLIP_HAVE_CUDA
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/gpu.h"
#endif

namespace slip::cli {
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
std::unique_ptr<backend::Backend> load_cuda(int index, const model::Config& config,
                                            const model::Weights& weights, const BackendOptions& options,
                                            const std::function<void(double)>& progress) {
  backend::cuda::CudaOptions cuda;
  cuda.device = index;
  cuda.threads = options.threads;
  cuda.kv_storage = options.kv == "f32" ? kv::Storage::kF32 : kv::Storage::kBf16;
  cuda.progress = progress;
  if (options.activations == "16") cuda.rows_as = backend::cuda::RowsAs::kPairs;
  if (options.activations == "11") cuda.rows_as = backend::cuda::RowsAs::kHalves;
  return backend::cuda::load(config, weights, cuda);
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
std::unique_ptr<backend::Backend> load_cuda(int, const model::Config&, const model::Weights&,
                                            const BackendOptions&, const std::function<void(double)>&) {
  fail_usage("--device cuda: {}", why_no_gpu());
}
#endif

Device choose_auto(size_t needed) {
  if (gpu_count() == 0) return {.note = why_no_gpu()};
  const size_t available = gpu_free_bytes(0);
  if (available < needed)
    return {.note = fmt::format("the GPU has {} free and the model needs {}", bytes_text(available),
                                bytes_text(needed))};
  return {.cuda = true};
}

}  // namespace

Device choose_device(const BackendOptions& options, size_t needed) {
  const std::string& name = options.device;
  if (name == "cpu") return {};
  if (name == "auto" && options.wants_cpu())
    return {.note = fmt::format("--activations {} is for the CPU", options.activations)};
  if (name == "auto") return choose_auto(needed);
  if (name != "cuda" && !name.starts_with("cuda:"))
    fail_usage("--device must be auto, cpu, cuda or cuda:N, not '{}'", name);
  const int index =
      name == "cuda" ? 0 : static_cast<int>(parse_integer("--device cuda:N", name.substr(5), 0, 1023));
  const int count = gpu_count();
  if (count == 0) fail_usage("--device {}: {}; use --device cpu", name, why_no_gpu());
  if (index >= count)
    fail_usage("--device {}: this machine has {} GPU{}, numbered from 0", name, count, count == 1 ? "" : "s");
  if (options.wants_cpu())
    fail_usage("--activations {} is for the CPU; a GPU has 16 and 11", options.activations);
  return {.cuda = true, .index = index};
}

std::unique_ptr<backend::Backend> load_on(Device& device, const model::Config& config,
                                          const model::Weights& weights, const BackendOptions& options,
                                          const std::function<void(double)>& progress) {
  if (device.cuda) {
    try {
      return load_cuda(device.index, config, weights, options, progress);
    } catch (const Error& error) {
      const bool other_device_helps =
          error.kind() != ErrorKind::kRuntime && error.kind() != ErrorKind::kUsage;
      if (options.device != "auto" || !other_device_helps) throw;
      device = {.note = error.what()};
    }
  }
  if (options.activations == "11")
    fail_usage("--activations 11 is for GPUs, and this is the CPU, which has 16, 8 and float");
  backend::cpu::CpuOptions cpu = cpu_options(options);
  cpu.progress = progress;
  return backend::cpu::load(config, weights, cpu);
}

}  // namespace slip::cli
