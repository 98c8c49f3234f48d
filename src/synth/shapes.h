// Shapes: the published Gemma 4 sizes by name, and tiny ones for tests that have the same features with few
// parameters. A shape is a Config and nothing else; synthetic.h makes weights for it. The tiny sizes keep
// every matrix a multiple of 128 columns, so that all affine group sizes fit, while row counts (tiny-dense's
// vocabulary, the heads, the window) stay away from round numbers to find kernels that forget their tails.
// Every shape has an assistant, the published one or a tiny one with the same kind of head.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/assistant.h"

namespace slip::synth {

/// e2b, e4b, 12b, 26b-a4b, 31b, tiny-e2b, tiny-dense, tiny-moe, tiny-moe8, tiny-unified.
std::vector<std::string> shape_names();

/// Upper case is accepted. Throws Error(kUsage) that lists the names when there is no such shape.
model::Config shape_config(std::string_view name);

/// The assistant of that shape, its layers pointing at the target's caches: three sliding layers read the
/// last sliding layer that owns one, a full layer the last full one.
model::AssistantConfig assistant_shape_config(std::string_view name);

}  // namespace slip::synth
