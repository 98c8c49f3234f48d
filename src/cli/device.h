// Where a model runs: --device auto, cpu, cuda or cuda:N. The one place of the program that knows whether
// this build has the CUDA executor and whether this machine has a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "cli/backend_options.h"
#include "model/weights.h"

namespace slip::cli {

struct Device {
  bool cuda = false;
  int index = 0;
  std::string note = {};  // why auto did not take a GPU: "this build has no CUDA executor"; empty otherwise
};

/// Throws Error(kUsage) for a device that is not there. `needed`: bytes of the model and its caches; auto
/// passes over a GPU with less room.
Device choose_device(const BackendOptions& options, size_t needed);

/// Loads on the device; where auto chose a GPU that cannot take the model after all, on the CPU, and notes
/// why.
std::unique_ptr<backend::Backend> load_on(Device& device, const model::Config& config,
                                          const model::Weights& weights, const BackendOptions& options,
                                          const std::function<void(double)>& progress);

}  // namespace slip::cli
