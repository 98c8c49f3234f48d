#include "synth/synthetic.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/bind.h"
#include "synth/shapes.h"
#include "synth/synthetic_layout.h"

namespace slip::synth {

namespace {

SyntheticFormat check_format(const SynthOptions& options) {
  if (options.acceptance) check_acceptance(*options.acceptance);
  constexpr int kBits[] = {3, 4, 5, 6, 8, 16};
  if (std::find(std::begin(kBits), std::end(kBits), options.bits) == std::end(kBits)) {
    fail_usage("weights of {} bits do not exist; choose 4, 8 or 16 (3, 5 and 6 work too)", options.bits);
  }
  check_group(options.group);
  if (options.layout == SynthLayout::kHuggingFace && options.bits != 16) {
    fail_usage("the Hugging Face layout has 16 bits, not {}; leave the layout out or choose mlx",
               options.bits);
  }
  const bool mlx = options.layout == SynthLayout::kMlx || options.bits != 16;
  return {.mlx = mlx, .bits = options.bits, .group = options.group};
}

// What the published -it models ship. Ids that a small vocabulary does not have are left out. A chain of
// tokens runs through ids that are special elsewhere: only one of them may end it, and none is suppressed.
checkpoint::GenerationConfig published_defaults(const model::Config& config, bool chained) {
  checkpoint::GenerationConfig generation;
  generation.do_sample = true;
  generation.temperature = 1.0f;
  generation.top_k = 64;
  generation.top_p = 0.95f;
  const auto add = [&config](std::vector<int>& ids, int id) {
    if (id < config.vocab) ids.push_back(id);
  };
  add(generation.stop_ids, 1);
  if (chained) return generation;
  for (const int id : {106, 50}) add(generation.stop_ids, id);
  if (config.model_type == "gemma4_unified") {
    for (const int id : {258883, 258882}) add(generation.suppress_ids, id);
  }
  return generation;
}

}  // namespace

std::unique_ptr<Checkpoint> synthesize(const SynthOptions& options) {
  const SyntheticFormat format = check_format(options);
  auto made = std::make_unique<Checkpoint>();
  made->path = "synthetic " + options.shape;
  made->config = shape_config(options.shape);
  made->generation = published_defaults(made->config, options.acceptance.has_value());
  TokenChain chain{.code = nullptr, .seed = options.seed};
  if (options.acceptance) {
    chain.code = std::make_shared<RotationCode>(made->config, assistant_shape_config(options.shape),
                                                options.seed, options.shape);
  }
  for (const SyntheticTensor::Spec& spec : synthetic_layout(made->config, format, chain)) {
    auto tensor = make_tensor(spec, options.seed);
    made->file_bytes += tensor->bytes();
    const bool is_new = made->tensors.add(std::move(tensor));
    SLIP_CHECK(is_new);
  }
  checkpoint::BindOptions binding{.where = made->path, .quantization = {}};
  binding.quantization.present = format.bits != 16;
  binding.quantization.defaults.bits = format.bits != 16 ? format.bits : 0;
  binding.quantization.defaults.group = format.bits != 16 ? format.group : 0;
  checkpoint::Bound bound = bind(made->tensors, made->config, binding);
  made->weights = std::move(bound.weights);
  made->not_loaded = std::move(bound.not_loaded);
  made->format = std::move(bound.format);
  return made;
}

}  // namespace slip::synth
