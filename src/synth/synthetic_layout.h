// The tensors a checkpoint of one Config has, by name, shape and filling: what a published text decoder of
// that Config ships (towers left out), in Hugging Face's layout or in MLX's. Nothing is generated here; see
// synthetic_tensor.h.
//
// The sizes of the values are chosen so that a forward pass stays finite and greedy text keeps changing:
// linear maps have a deviation of about 1 / sqrt(columns), norm weights lie around 1, layer scalars between
// 0.6 and 1. Exceptions do what training does: q and k norms shrink with the head size, because attention
// scores are not divided by sqrt(head_dim); router rows are large, because the router's input is tiny; the
// embedding is small and the final norm large, so that logits spread without every token predicting itself.
//
// With a RotationCode the embedding holds token codes and the MLP of one layer turns them, so that token t is
// followed by t + 1. Everything else stays random and is computed all the same, but its norms after the fact
// are small: together the other branches move the stream by a few percent.
#pragma once

#include <vector>

#include "model/config.h"
#include "synth/synthetic_code.h"
#include "synth/synthetic_specs.h"

namespace slip::synth {

/// The chain of tokens that a target with these weights follows.
struct TokenChain {
  SharedCode code;  // none: random weights
  uint64_t seed = 0;
};

/// Throws Error(kUsage) when the group does not divide a matrix's columns.
std::vector<SyntheticTensor::Spec> synthetic_layout(const model::Config& config,
                                                    const SyntheticFormat& format,
                                                    const TokenChain& chain = {});

/// Throws Error(kUsage) outside 0 to 1.
void check_acceptance(double acceptance);
/// Throws Error(kUsage) unless groups of this size are read by anyone.
void check_group(int group);

/// The weight of norms after branches that run without having a say.
inline constexpr double kQuietNorm = 0.01;

}  // namespace slip::synth
