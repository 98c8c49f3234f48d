// Synthetic checkpoints: a model of any shape with weights made up on demand, so that speed, memory and
// correctness can be tried without a download. The same options give the same bytes everywhere, in memory
// (`bench`) and written to a folder (`synth`, see writer.h). Making the Checkpoint costs milliseconds and no
// weight memory; packing it then costs about a second per few GB and thread. In memory it has no tokenizer and is
// fed token ids; a folder gets a made-up one.
//
// Random weights cannot be drafted for. With an `acceptance` the weights are made so that token t is followed
// by t + 1 (after the last token comes 0) with a probability of more than 0.95 at temperature 1, and the
// assistant guesses that token for a chosen share of all tokens and another one for the rest, as surely. All
// matrices keep their sizes and are computed with, so speculation can be timed end to end at real size. The
// target is the same for every acceptance. Its one stop id is 1: a prompt that ends at token 1000 of a real
// shape's vocabulary can be continued for 261 thousand tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/assistant.h"
#include "checkpoint/checkpoint.h"

namespace slip::synth {

using checkpoint::AssistantCheckpoint;
using checkpoint::Checkpoint;

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
  std::optional<double> acceptance{};  // 0 to 1; none = random weights
  int assistant_bits = 16;             // 4, 8 or 16
};

/// Throws Error(kUsage) for an unknown shape or a combination that no checkpoint has.
std::unique_ptr<Checkpoint> synthesize(const SynthOptions& options);

/// The assistant of the target that synthesize() makes from the same options: in Hugging Face's layout at 16
/// bits unless MLX's is asked for, in MLX's below.
std::unique_ptr<AssistantCheckpoint> synthesize_assistant(const SynthOptions& options);

}  // namespace slip::synth
