// Synthetic checkpoints: a model of any shape with weights made up on demand, so that speed, memory and
// correctness can be tried without a download. The same options give the same bytes everywhere, in memory
// (`bench`) and written to a folder (`synth`, see writer.h). Making the Checkpoint costs milliseconds and no
// weight memory; packing it then costs about a second per few GB and thread. There is no tokenizer: such a
// model is fed token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"

namespace slip::checkpoint {

enum class SynthLayout {
  kAuto,         // Hugging Face for 16 bits, MLX below
  kHuggingFace,  // bf16, experts fused as experts.gate_up_proj
  kMlx,          // affine codes (or bf16 at 16 bits), experts under switch_glu
};

struct SynthOptions {
  std::string shape = "e2b";  // see shapes.h
  int bits = 4;               // 3, 4, 5, 6, 8 or 16
  int group = 64;             // 32, 64 or 128 columns per scale, below 16 bits
  SynthLayout layout = SynthLayout::kAuto;
  uint64_t seed = 1;
};

/// Throws Error(kUsage) for an unknown shape or a combination that no checkpoint has.
std::unique_ptr<Checkpoint> synthesize(const SynthOptions& options);

}  // namespace slip::checkpoint
