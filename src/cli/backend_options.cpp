#include "cli/backend_options.h"

namespace slip::cli {

using backend::cpu::ActivationMode;

void add_backend_options(Parser& parser, BackendOptions& options) {
  parser.text({"--device", "NAME", "auto (a GPU if the model fits on it), cpu, cuda or cuda:N"},
              options.device);
  parser.integer({"-t,--threads", "N", "threads (default: one per core)"}, 1, 1024, options.threads);
  parser.choice(
      {"--activations", "KIND", "what quantised weights see: auto, 16 bits; CPU: 8, float; GPU: 11"},
      {"auto", "16", "11", "8", "float"}, options.activations);
  parser.choice({"--kv", "TYPE", "how keys and values are kept: bf16 or f32"}, {"bf16", "f32"}, options.kv);
}

backend::cpu::CpuOptions cpu_options(const BackendOptions& options) {
  backend::cpu::CpuOptions cpu;
  cpu.threads = options.threads;
  cpu.activations = options.activations == "8"       ? ActivationMode::kInt8
                    : options.activations == "float" ? ActivationMode::kFloat
                                                     : ActivationMode::kInt16;
  cpu.kv_storage = options.kv == "f32" ? kv::Storage::kF32 : kv::Storage::kBf16;
  return cpu;
}

}  // namespace slip::cli
