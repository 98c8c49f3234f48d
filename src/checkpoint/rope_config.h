// The rotary part of config.json, in its spellings: rope_parameters by layer kind (what Gemma 4 files have),
// one flat rope_parameters or rope_scaling, and rope_theta / rope_local_base_freq as in Gemma 3. Fills
// rotated_pairs, rope_theta and rope_factor of every layer, whose kind and head_dim must be set already.
#pragma once

#include <vector>

#include "model/config.h"

namespace slip::checkpoint {

class JsonObject;

/// Throws Error(kBadFile) for kinds of scaling that slipstream does not compute.
void apply_rope(const JsonObject& text_config, std::vector<model::LayerConfig>& layers);

/// The same for networks that are no Gemma: one rope_theta for all layers, under rope_parameters or at the
/// top, every pair of the head turns, nothing is assumed.
void apply_plain_rope(const JsonObject& config, std::vector<model::LayerConfig>& layers);

}  // namespace slip::checkpoint
