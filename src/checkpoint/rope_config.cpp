#include "checkpoint/rope_config.h"

#include <cmath>

#include "base/error.h"
#include "checkpoint/json_text.h"

namespace slip::checkpoint {

namespace {

struct Rope {
  std::string type;
  double theta = 0;
  double partial = 1;  // share of the head that turns; proportional only
  double factor = 1;
};

// What Hugging Face assumes for Gemma 4 where config.json is silent.
const Rope kSliding{"default", 1e4, 1, 1};
const Rope kFull{"proportional", 1e6, 0.25, 1};

void read_rope(const JsonObject& source, Rope& rope) {
  auto type = source.text("rope_type");
  if (!type) type = source.text("type");
  if (type) {
    if (*type != "default" && *type != "linear" && *type != "proportional") {
      fail_file("{}: {} is {}, but slipstream computes default, linear and proportional only", source.file(),
                source.path_of("rope_type"), in_quotes(*type));
    }
    rope.type = *type;
    rope.partial = 1;
  }
  rope.theta = source.number("rope_theta", 1, 1e12).value_or(rope.theta);
  // The default kind takes no factor, even where one is left over in the file.
  const double factor = source.number("factor", 1e-6, 1e6).value_or(rope.factor);
  rope.factor = rope.type == "default" ? 1 : factor;
  rope.partial = source.number("partial_rotary_factor", 0, 1).value_or(rope.partial);
  if (rope.type != "proportional" && rope.partial != 1) {
    fail_file("{}: {} is {}, but only rope_type proportional turns a part of the head", source.file(),
              source.path_of("partial_rotary_factor"), rope.partial);
  }
}

void set_rope(const Rope& rope, model::LayerConfig& layer) {
  layer.rope_theta = rope.theta;
  layer.rope_factor = rope.factor;
  const bool whole = rope.type != "proportional";
  layer.rotated_pairs =
      whole ? layer.head_dim / 2 : static_cast<int>(std::floor(rope.partial * layer.head_dim / 2));
}

}  // namespace

void apply_rope(const JsonObject& text, std::vector<model::LayerConfig>& layers) {
  Rope sliding = kSliding;
  Rope full = kFull;
  full.theta = text.number("rope_theta", 1, 1e12).value_or(full.theta);
  sliding.theta = text.number("rope_local_base_freq", 1, 1e12).value_or(sliding.theta);
  // Flat forms speak of the full layers: sliding ones never needed stretching.
  if (const auto scaling = text.object("rope_scaling")) read_rope(*scaling, full);
  if (const auto parameters = text.object("rope_parameters")) {
    const auto for_full = parameters->object("full_attention");
    const auto for_sliding = parameters->object("sliding_attention");
    if (for_full) read_rope(*for_full, full);
    if (for_sliding) read_rope(*for_sliding, sliding);
    if (!for_full && !for_sliding) read_rope(*parameters, full);
  }
  for (model::LayerConfig& layer : layers) {
    set_rope(layer.kind == model::LayerKind::kFull ? full : sliding, layer);
  }
}

void apply_plain_rope(const JsonObject& config, std::vector<model::LayerConfig>& layers) {
  Rope rope{"default", config.number("rope_theta", 1, 1e12).value_or(0), 1, 1};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const auto parameters = config.object(key)) read_rope(*parameters, rope);
  }
  if (rope.theta == 0) {
    fail_file("{}: has no rope_theta, neither at the top nor under rope_parameters", config.file());
  }
  for (model::LayerConfig& layer : layers) set_rope(rope, layer);
}

}  // namespace slip::checkpoint
