// The options that say how a model is run, shared by every command that runs one.
#pragma once

#include <string>

#include "backend/cpu/cpu_backend.h"
#include "cli/parser.h"

namespace slip::cli {

struct BackendOptions {
  std::string device = "auto";       // auto, cpu, cuda or cuda:N
  int threads = 0;                   // 0 = one per core
  std::string activations = "auto";  // what quantised weights see: 16, of a CPU 8 or float, of a GPU 11
  std::string kv = "bf16";           // how K and V are kept: bf16 or f32

  /// Whether it asks for what only the CPU has.
  bool wants_cpu() const { return activations == "8" || activations == "float"; }
};

/// Adds --device, -t/--threads, --activations and --kv.
void add_backend_options(Parser& parser, BackendOptions& options);

backend::cpu::CpuOptions cpu_options(const BackendOptions& options);

}  // namespace slip::cli
