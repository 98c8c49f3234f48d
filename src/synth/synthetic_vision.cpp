#include "synth/synthetic_vision.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/check.h"
#include "checkpoint/tensor_binder.h"
#include "checkpoint/vision.h"
#include "synth/shapes.h"
#include "synth/synthetic_specs.h"

namespace slip::synth {

namespace {

using model::VisionConfig;
using model::VisionKind;

// Far enough out that few values meet them, near enough that some do.
constexpr float kInputBound = 3, kOutputBound = 2.5;

enum class Tower { kSmall, kLarge, kUnified };

Tower tower_of(const model::Config& text) {
  if (text.model_type == "gemma4_unified") return Tower::kUnified;
  return text.per_layer_dim > 0 ? Tower::kSmall : Tower::kLarge;
}

void size_tower(VisionConfig& config, Tower tower, bool tiny) {
  const bool small = tower == Tower::kSmall;
  config.layers = tiny ? 2 : small ? 16 : 27;
  config.heads = tiny ? (small ? 3 : 2) : small ? 12 : 16;
  config.head_dim = small ? (tiny ? 20 : 64) : 72;
  config.hidden = tiny ? 100 : small ? 768 : 1152;
  config.intermediate = tiny ? 150 : small ? 3072 : 4304;
  config.positions = tiny ? 40 : 10240;
  config.standardise = !small;
}

class VisionLayout {
 public:
  VisionLayout(const VisionConfig& config, bool clipped)
      : config_(config), clipped_(clipped), specs_(SyntheticFormat{}, "model.") {}

  std::vector<SyntheticTensor::Spec> build() {
    const int64_t d = config_.hidden;
    specs_.linear("embed_vision.embedding_projection", config_.text_hidden, d);
    config_.kind == VisionKind::kTower ? tower() : unified();
    return specs_.take();
  }

 private:
  void tower() {
    const int64_t d = config_.hidden;
    specs_.set_prefix("model.vision_tower.");
    specs_.linear("patch_embedder.input_proj", d, config_.patch_values());
    specs_.weights("patch_embedder.position_embedding_table", {2, config_.positions, d}, 0.5);
    if (config_.standardise) {
      specs_.vector("std_bias", d, 0.5, 1);
      specs_.vector("std_scale", d, 1, 0.5);
    }
    for (int i = 0; i < config_.layers; ++i) layer(fmt::format("encoder.layers.{}.", i));
  }

  void layer(const std::string& at) {
    const int64_t d = config_.hidden, a = config_.q_size(), inner = config_.intermediate;
    for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                             "post_feedforward_layernorm"}) {
      specs_.norm(at + norm, d);
    }
    // Scores of deviation 2, as in synthetic_layout.cpp.
    specs_.vector(at + "self_attn.q_norm.weight", config_.head_dim,
                  std::sqrt(2.0 / std::sqrt(config_.head_dim)), 0.2);
    specs_.vector(at + "self_attn.k_norm.weight", config_.head_dim,
                  std::sqrt(2.0 / std::sqrt(config_.head_dim)), 0.2);
    for (const char* projection : {"q_proj", "k_proj", "v_proj"}) {
      product(at + "self_attn." + projection, a, d);
    }
    product(at + "self_attn.o_proj", d, a);
    product(at + "mlp.gate_proj", inner, d);
    product(at + "mlp.up_proj", inner, d);
    product(at + "mlp.down_proj", d, inner);
  }

  void product(const std::string& module, int64_t rows, int64_t cols) {
    specs_.linear(module + ".linear", rows, cols);
    if (!clipped_) return;
    specs_.vector(module + ".input_min", 1, -kInputBound, 0);
    specs_.vector(module + ".input_max", 1, kInputBound, 0);
    specs_.vector(module + ".output_min", 1, -kOutputBound, 0);
    specs_.vector(module + ".output_max", 1, kOutputBound, 0);
  }

  void unified() {
    const int64_t d = config_.hidden, values = config_.patch_values();
    specs_.set_prefix("model.vision_embedder.");
    const auto layer_norm = [&](const std::string& module, int64_t size) {
      specs_.norm(module, size);
      specs_.vector(module + ".bias", size, 0.1, 1);
    };
    layer_norm("patch_ln1", values);
    layer_norm("patch_ln2", d);
    layer_norm("pos_norm", d);
    specs_.linear("patch_dense", d, values);
    specs_.vector("patch_dense.bias", d, 0.1, 1);
    specs_.weights("pos_embedding", {config_.positions, 2, d}, 0.5);
  }

  const VisionConfig& config_;
  const bool clipped_;
  SpecBuilder specs_;
};

}  // namespace

VisionConfig vision_shape_config(std::string_view shape) {
  const model::Config text = shape_config(shape);
  const bool tiny = shape.starts_with("tiny");
  const Tower tower = tower_of(text);
  VisionConfig config;
  config.text_hidden = text.hidden;
  if (tower == Tower::kUnified) {
    config.kind = VisionKind::kUnified;
    config.hidden = tiny ? 100 : text.hidden;
    config.patch_side = tiny ? 4 : config.patch_side;
    config.positions = tiny ? 40 : 1120;
  } else {
    size_tower(config, tower, tiny);
  }
  return config;
}

std::unique_ptr<SyntheticVision> synthesize_vision(std::string_view shape, uint64_t seed) {
  auto made = std::make_unique<SyntheticVision>();
  made->config = vision_shape_config(shape);
  const bool clipped = tower_of(shape_config(shape)) == Tower::kSmall;
  for (const SyntheticTensor::Spec& spec : VisionLayout(made->config, clipped).build()) {
    const bool is_new = made->tensors.add(make_tensor(spec, seed));
    SLIP_CHECK(is_new);
  }
  const checkpoint::Quantization plain;
  checkpoint::TensorBinder binder(made->tensors, plain, "synthetic " + std::string(shape));
  made->weights = checkpoint::bind_vision(binder, made->config, clipped);
  return made;
}

}  // namespace slip::synth
