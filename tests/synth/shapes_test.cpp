#include "synth/shapes.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "synth/synthetic.h"
#include "synth/synthetic_layout.h"

namespace slip::synth {
namespace {

using model::Config;
using model::LayerConfig;
using model::LayerKind;

struct Parameters {
  double layers = 0, embed = 0, per_layer_embed = 0;  // billions
};

Parameters count(const Config& config) {
  Parameters sum;
  for (const SyntheticTensor::Spec& spec : synthetic_layout(config, {})) {
    double elements = 1e-9;
    for (const int64_t extent : spec.shape) elements *= static_cast<double>(extent);
    if (spec.name.ends_with("embed_tokens.weight")) {
      sum.embed += elements;
    } else if (spec.name.ends_with("embed_tokens_per_layer.weight")) {
      sum.per_layer_embed += elements;
    } else if (spec.name.find(".layers.") != std::string::npos) {
      sum.layers += elements;
    }
  }
  return sum;
}

TEST(Shapes, published_sizes_have_their_parameter_counts) {
  // Layers, embedding and per-layer table in billions, from the published configurations.
  const std::map<std::string, Parameters> published{{"e2b", {1.86, 0.40, 2.35}},
                                                    {"e4b", {3.95, 0.67, 2.82}},
                                                    {"12b", {10.90, 1.01, 0}},
                                                    {"26b-a4b", {24.50, 0.74, 0}},
                                                    {"31b", {29.29, 1.41, 0}}};
  for (const auto& [name, expected] : published) {
    const Parameters found = count(shape_config(name));
    EXPECT_NEAR(found.layers, expected.layers, 0.0051) << name;
    EXPECT_NEAR(found.embed, expected.embed, 0.0051) << name;
    EXPECT_NEAR(found.per_layer_embed, expected.per_layer_embed, 0.0051) << name;
  }
}

TEST(Shapes, every_name_gives_a_config_that_keeps_its_invariants) {
  for (const std::string& name : shape_names()) {
    const Config config = shape_config(name);
    ASSERT_FALSE(config.layers.empty()) << name;
    EXPECT_EQ(config.layers.back().kind, LayerKind::kFull) << name;
    EXPECT_GT(config.window, 0) << name;
    for (int i = 0; i < config.layer_count(); ++i) {
      const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
      ASSERT_GE(layer.kv_source, 0) << name;
      ASSERT_LE(layer.kv_source, i) << name;
      const LayerConfig& source = config.layers[static_cast<size_t>(layer.kv_source)];
      EXPECT_TRUE(config.owns_kv(layer.kv_source)) << name;
      EXPECT_EQ(source.kind, layer.kind) << name;
      EXPECT_EQ(source.kv_size(), layer.kv_size()) << name;
      EXPECT_EQ(layer.heads % layer.kv_heads, 0) << name;
      EXPECT_EQ(layer.head_dim % 2, 0) << name;
      EXPECT_LE(layer.rotated_pairs, layer.head_dim / 2) << name;
    }
  }
}

TEST(Shapes, e2b_shares_the_last_caches_of_each_kind_and_doubles_those_layers) {
  const Config config = shape_config("e2b");
  ASSERT_EQ(config.layer_count(), 35);
  EXPECT_EQ(config.layers[14].kv_source, 14);
  EXPECT_EQ(config.layers[15].kv_source, 13);
  EXPECT_EQ(config.layers[19].kv_source, 14);
  EXPECT_EQ(config.layers[34].kv_source, 14);
  EXPECT_EQ(config.layers[14].intermediate, 6144);
  EXPECT_EQ(config.layers[15].intermediate, 12288);
  EXPECT_FLOAT_EQ(config.embed_scale, 39.25f);
  EXPECT_EQ(config.last_kv_layer(), 14);
}

TEST(Shapes, e4b_shares_without_doubling) {
  const Config config = shape_config("e4b");
  EXPECT_EQ(config.layers[24].kv_source, 22);
  EXPECT_EQ(config.layers[29].kv_source, 23);
  EXPECT_EQ(config.layers[41].intermediate, 10240);
}

TEST(Shapes, full_layers_turn_a_quarter_of_the_pairs_with_frequencies_over_the_whole_head) {
  const LayerConfig full = shape_config("31b").layers[5];
  EXPECT_TRUE(full.k_is_v);
  EXPECT_EQ(full.rotated_pairs, 64);
  EXPECT_NEAR(Config::rope_frequency(full, 63), 0.0333762, 1e-7);
  const LayerConfig sliding = shape_config("31b").layers[4];
  EXPECT_FALSE(sliding.k_is_v);
  EXPECT_NEAR(Config::rope_frequency(sliding, 127), 1.07461e-4, 1e-9);
}

TEST(Shapes, tiny_shapes_stay_small_and_cover_each_feature) {
  double parameters = 0;
  for (const std::string& name : shape_names()) {
    if (!name.starts_with("tiny-")) continue;
    const Parameters found = count(shape_config(name));
    EXPECT_LT(found.layers + found.embed + found.per_layer_embed, 0.01) << name;
    parameters += found.layers;
  }
  EXPECT_GT(parameters, 0);
  EXPECT_GT(shape_config("tiny-e2b").per_layer_dim, 0);
  EXPECT_FALSE(shape_config("tiny-e2b").owns_kv(7));
  EXPECT_TRUE(shape_config("tiny-dense").layers.back().k_is_v);
  EXPECT_EQ(shape_config("tiny-moe").experts, 8);
  EXPECT_EQ(shape_config("tiny-moe8").experts_per_token, 8);
  EXPECT_EQ(shape_config("tiny-unified").model_type, "gemma4_unified");
}

TEST(AssistantShapes, published_sizes_have_their_parameter_counts) {
  const std::map<std::string, double> published{
      {"e2b", 77.7}, {"e4b", 78.5}, {"12b", 422.9}, {"26b-a4b", 419.7}, {"31b", 469.5}};
  for (const auto& [name, millions] : published) {
    double found = 0;
    const auto made = synthesize_assistant({.shape = name});
    for (const auto& [tensor_name, tensor] : made->tensors) {
      if (tensor->dtype() == tensor::DType::kBf16) found += 1e-6 * static_cast<double>(tensor->elements());
    }
    EXPECT_NEAR(found, millions, 0.051) << name;
  }
  EXPECT_EQ(synthesize_assistant({.shape = "31b"})->tensors.size(), 48u);
}

TEST(AssistantShapes, layers_read_the_last_cache_of_their_kind_and_have_its_sizes) {
  for (const std::string& name : shape_names()) {
    const Config target = shape_config(name);
    const model::AssistantConfig assistant = assistant_shape_config(name);
    ASSERT_EQ(assistant.text.layer_count(), 4) << name;
    EXPECT_EQ(assistant.backbone_hidden, target.hidden) << name;
    EXPECT_EQ(assistant.text.vocab, target.vocab) << name;
    EXPECT_EQ(assistant.text.window, target.window) << name;
    EXPECT_EQ(assistant.text.logit_softcap, 0) << name;
    EXPECT_EQ(assistant.centroids > 0 ? target.vocab % assistant.centroids : 0, 0) << name;
    for (int i = 0; i < 4; ++i) {
      const LayerConfig& layer = assistant.text.layers[static_cast<size_t>(i)];
      const LayerConfig& source = target.layers[static_cast<size_t>(layer.kv_source)];
      EXPECT_EQ(layer.kind, i < 3 ? LayerKind::kSliding : LayerKind::kFull) << name;
      EXPECT_TRUE(target.owns_kv(layer.kv_source)) << name;
      EXPECT_EQ(layer.kind, source.kind) << name;
      EXPECT_EQ(layer.kv_size(), source.kv_size()) << name;
      EXPECT_EQ(layer.k_is_v, source.k_is_v) << name;
      EXPECT_EQ(layer.rotated_pairs, source.rotated_pairs) << name;
      EXPECT_EQ(layer.heads % layer.kv_heads, 0) << name;
    }
  }
  // The table of the published pairs.
  const std::map<std::string, std::pair<int, int>> sources{
      {"e2b", {13, 14}}, {"e4b", {22, 23}}, {"12b", {46, 47}}, {"26b-a4b", {28, 29}}, {"31b", {58, 59}}};
  for (const auto& [name, expected] : sources) {
    const model::AssistantConfig assistant = assistant_shape_config(name);
    EXPECT_EQ(assistant.text.layers[0].kv_source, expected.first) << name;
    EXPECT_EQ(assistant.text.layers[3].kv_source, expected.second) << name;
  }
}

TEST(Shapes, an_unknown_name_is_answered_with_the_names_there_are) {
  try {
    shape_config("e3b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    for (const std::string& name : shape_names()) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(shape_config("26B-A4B").experts, 128);
}

}  // namespace
}  // namespace slip::synth
