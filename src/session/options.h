// What a user may ask of a model: where it runs, who drafts, how much runs together. Parsed once, by whoever reads
// command lines, files or requests; enums from there on.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kv/layout.h"
#include "speculate/mtp.h"

namespace slip::session {

enum class DeviceKind { kAuto, kCpu, kCuda };

/// How many bits of every activation quantised weights are multiplied with.
enum class Activations {
  kAuto,   // what is best on the device
  k16,     // every device
  k11,     // GPUs
  k8,      // the CPU
  kFloat,  // the CPU
};
/// As in --activations: "auto", "16", "11", "8", "float".
const char* name_of(Activations activations);

struct BackendOptions {
  DeviceKind device = DeviceKind::kAuto;
  int device_index = 0;  // of a CUDA device
  int threads = 0;       // 0 = one per core
  Activations activations = Activations::kAuto;
  kv::Storage kv = kv::Storage::kBf16;
  int step_rows = 0;  // a step takes at least so many; 0 = what is usual on the device

  /// Whether it asks for what only the CPU has.
  bool wants_cpu() const { return activations == Activations::k8 || activations == Activations::kFloat; }
};

/// Who guesses.
enum class Drafting {
  kAuto,    // everything there is
  kMtp,     // the model's assistant
  kDflash,  // a DFlash drafter
  kSuffix,  // lookups in the text
  kNone,
};

/// As in --draft-kind: "auto", "mtp", "dflash", "suffix", "none".
const char* name_of(Drafting drafting);

enum class DraftBits { kAuto, k4, k8, kAsStored };

struct DraftOptions {
  std::vector<std::string> models = {};  // folders or names: an assistant, a DFlash drafter, or one of each
  Drafting kind = Drafting::kAuto;
  int depth = -1;  // guesses per round; -1 = as many as pay
  DraftBits bits = DraftBits::kAuto;
  speculate::MtpPosition position = speculate::MtpPosition::kLastKey;
};
/// What can be said without a model. Throws Error(kUsage).
void validate(const DraftOptions& options);

/// Bytes done and in all. What it throws ends the work.
using Progress = std::function<void(size_t done, size_t total)>;

struct LoadOptions {
  BackendOptions backend = {};
  DraftOptions draft = {};
  engine::EngineOptions engine = {.sequences = 1};
  bool vision = false;  // the tower is loaded at once, and not with the first picture
  // The most soft tokens a picture may become, where its rows must come in one step: what a step takes and what a
  // sequence keeps grow with it.
  int picture_tokens = 280;
  Progress progress = {};
};

}  // namespace slip::session
