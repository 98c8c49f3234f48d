// Where a model runs. The one place that knows whether this build has the CUDA executor and whether this machine
// has a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "session/options.h"

namespace slip::session {

struct Device {
  bool cuda = false;
  int index = 0;
  std::string note = {};  // why auto did not take a GPU: "this build has no CUDA executor"; empty otherwise
};

/// Throws Error(kUsage) for a device that is not there. `needed`: bytes of the model and its caches; auto
/// passes over a GPU with less room.
Device choose_device(const BackendOptions& options, size_t needed);

struct LoadedBackend {
  std::unique_ptr<backend::Backend> backend;
  std::string note;  // see Device
};

/// Packs the weights for the device that the options ask for; where auto chose a GPU that cannot take the model
/// after all, for the CPU, and notes why. Throws Error(kOutOfMemory), before it takes memory, when the model
/// cannot fit.
LoadedBackend load_backend(const checkpoint::Checkpoint& checkpoint, const BackendOptions& options,
                           const Progress& progress = {});

}  // namespace slip::session
