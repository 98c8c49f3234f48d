#include "checkpoint/vision.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/tiny_model.h"
#include "checkpoint/vision_config.h"

namespace slip::checkpoint {
namespace {

using model::VisionKind;
using nlohmann::json;
using test::FileTensors;
using test::TempFolder;
using test::TinyModel;

/// A tiny model with eyes: 2 layers, 8 wide, 2 heads of 4, patches of 2 pixels, 5 positions.
struct TinyVision {
  bool unified = false, clipped = false, standardise = false, mlx = false;
  bool as_transformers_writes = false;  // the names of the 12B's embedder

  static constexpr int64_t kWidth = 8, kInner = 12, kPositions = 5, kTile = 6 * 6 * 3;

  json config() const {
    json whole = json::parse(TinyModel{.mlx = mlx}.config());
    if (unified) whole["model_type"] = "gemma4_unified";
    whole["vision_config"] = unified ? json{{"mm_embed_dim", kWidth}, {"mm_posemb_size", kPositions}}
                                     : json{{"hidden_size", kWidth},
                                            {"intermediate_size", kInner},
                                            {"num_hidden_layers", 2},
                                            {"num_attention_heads", 2},
                                            {"num_key_value_heads", 2},
                                            {"head_dim", 4},
                                            {"position_embedding_size", kPositions},
                                            {"use_clipped_linears", clipped},
                                            {"standardize", standardise},
                                            {"rope_parameters", {{"rope_theta", 50.0}}}};
    whole["vision_config"]["patch_size"] = 2;
    whole.update({{"image_token_id", 7}, {"video_token_id", 8}, {"boi_token_id", 5}, {"eoi_token_id", 6}});
    return whole;
  }

  FileTensors tensors() const {
    FileTensors all = TinyModel{.mlx = mlx}.tensors();
    const std::string prefix = mlx ? "" : "model.";
    const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, float value = 0.5f) {
      int64_t count = 1;
      for (const int64_t extent : shape) count *= extent;
      all[prefix + name] = {"BF16", shape, test::bf16_bytes(count, [&](int64_t) { return value; })};
    };
    if (unified) {
      const std::string at = as_transformers_writes ? "embed_vision." : "vision_embedder.";
      const std::string inside =
          as_transformers_writes ? "embed_vision.multimodal_embedder." : "embed_vision.";
      add(inside + "embedding_projection.weight", {TinyModel::kHidden, kWidth});
      for (const char* part : {"weight", "bias"}) {
        add(at + "patch_ln1." + part, {kTile});
        add(at + "patch_ln2." + part, {kWidth});
        add(at + "pos_norm." + part, {kWidth});
      }
      add(at + "patch_dense.weight", {kWidth, kTile});
      add(at + "patch_dense.bias", {kWidth});
      add(at + "pos_embedding", {kPositions, 2, kWidth});
      return all;
    }
    add("embed_vision.embedding_projection.weight", {TinyModel::kHidden, kWidth});
    add("vision_tower.patch_embedder.input_proj.weight", {kWidth, 2 * 2 * 3});
    add("vision_tower.patch_embedder.position_embedding_table", {2, kPositions, kWidth});
    if (standardise) add("vision_tower.std_bias", {kWidth}), add("vision_tower.std_scale", {kWidth});
    for (const int layer : {0, 1}) {
      const std::string at = "vision_tower.encoder.layers." + std::to_string(layer) + ".";
      for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                               "post_feedforward_layernorm"}) {
        add(at + norm + ".weight", {kWidth});
      }
      for (const char* norm : {"q_norm", "k_norm"}) add(at + "self_attn." + norm + ".weight", {4});
      const auto product = [&](const std::string& module, int64_t rows, int64_t cols) {
        add(at + module + ".linear.weight", {rows, cols});
        if (!clipped) return;
        add(at + module + ".input_min", {}, -1), add(at + module + ".input_max", {}, 2);
        add(at + module + ".output_min", {}, -3), add(at + module + ".output_max", {}, 4);
      };
      for (const char* projection : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        product(std::string("self_attn.") + projection, kWidth, kWidth);
      }
      product("mlp.gate_proj", kInner, kWidth);
      product("mlp.up_proj", kInner, kWidth);
      product("mlp.down_proj", kWidth, kInner);
    }
    return all;
  }
};

/// The text part is bound first, as in every run; then the vision part, if `tensors` and `config` allow.
struct Opened {
  Opened(const json& config, const FileTensors& tensors) {
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", test::safetensors(tensors));
    text = open(folder.path());
  }
  TempFolder folder;
  std::unique_ptr<Checkpoint> text;
};

void expect_bad(const json& config, const FileTensors& tensors, std::initializer_list<std::string> words) {
  const Opened opened(config, tensors);  // text alone is not bothered
  test::expect_bad_file([&] { open_vision(*opened.text); }, words);
}

const std::string kTower = "model.vision_tower.";

TEST(VisionCheckpoint, binds_the_small_tower_with_the_bounds_of_every_product) {
  const TinyVision tiny{.clipped = true};
  const Opened opened(tiny.config(), tiny.tensors());
  const auto vision = open_vision(*opened.text);
  ASSERT_TRUE(vision.has_value());
  const model::VisionConfig& config = vision->config;
  EXPECT_EQ(config.kind, VisionKind::kTower);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.q_size(), 8);
  EXPECT_EQ(config.text_hidden, TinyModel::kHidden);
  EXPECT_EQ(config.patch_values(), 12);
  EXPECT_EQ(config.patches_per_soft_row(), 9);
  EXPECT_EQ(config.rope_theta, 50);
  EXPECT_FALSE(config.standardise);
  ASSERT_EQ(vision->weights.layers.size(), 2u);
  const model::ClippedMatrix& down = vision->weights.layers[1].down;
  EXPECT_EQ(down.matrix.cols, 12);
  EXPECT_EQ(down.input_min, -1);
  EXPECT_EQ(down.input_max, 2);
  EXPECT_EQ(down.output_min, -3);
  EXPECT_EQ(down.output_max, 4);
  EXPECT_EQ(vision->weights.positions.rows, 2 * TinyVision::kPositions);
}

TEST(VisionCheckpoint, binds_the_large_tower_with_its_standardisation_under_the_names_of_mlx_too) {
  for (const bool mlx : {false, true}) {
    const TinyVision tiny{.standardise = true, .mlx = mlx};
    const Opened opened(tiny.config(), tiny.tensors());
    const auto vision = open_vision(*opened.text);
    ASSERT_TRUE(vision.has_value());
    EXPECT_TRUE(vision->config.standardise);
    EXPECT_EQ(vision->weights.std_scale.size(), 8u);
    EXPECT_EQ(vision->weights.layers[0].q.output_max, std::numeric_limits<float>::infinity());
  }
}

TEST(VisionCheckpoint, binds_the_unified_embedder_under_both_spellings_of_its_names) {
  for (const bool other : {false, true}) {
    const TinyVision tiny{.unified = true, .as_transformers_writes = other};
    const Opened opened(tiny.config(), tiny.tensors());
    const auto vision = open_vision(*opened.text);
    ASSERT_TRUE(vision.has_value());
    EXPECT_EQ(vision->config.kind, VisionKind::kUnified);
    EXPECT_EQ(vision->config.patch_values(), TinyVision::kTile);
    EXPECT_EQ(vision->config.patches_per_soft_row(), 1);
    EXPECT_EQ(vision->weights.tile_norm.bias.size(), static_cast<size_t>(TinyVision::kTile));
    EXPECT_EQ(vision->weights.positions.rows, 2 * TinyVision::kPositions);
  }
}

TEST(VisionCheckpoint, a_model_without_a_vision_part_has_no_eyes) {
  const Opened opened(json::parse(TinyModel{}.config()), TinyModel{}.tensors());
  EXPECT_FALSE(open_vision(*opened.text).has_value());
}

TEST(VisionCheckpoint, every_missing_tensor_is_named) {
  for (const TinyVision& tiny : {TinyVision{.clipped = true}, TinyVision{.standardise = true},
                                 TinyVision{.unified = true}, TinyVision{.mlx = true}}) {
    const FileTensors all = tiny.tensors();
    for (const auto& [name, tensor] : all) {
      if (name.find("vision") == std::string::npos) continue;
      FileTensors fewer = all;
      fewer.erase(name);
      // Of a module whose first tensor is gone, the name is Hugging Face's.
      const std::string word = name.substr(name.find("vision"));
      const bool renamed = tiny.mlx || tiny.unified;
      expect_bad(tiny.config(), fewer, {renamed ? word.substr(word.rfind('.') + 1) : word});
    }
  }
}

TEST(VisionCheckpoint, every_misshapen_tensor_is_named_with_both_shapes) {
  for (const TinyVision& tiny :
       {TinyVision{.clipped = true}, TinyVision{.standardise = true}, TinyVision{.unified = true}}) {
    const FileTensors all = tiny.tensors();
    for (const auto& [name, tensor] : all) {
      if (name.find("vision") == std::string::npos) continue;
      FileTensors wrong = all;
      test::FileTensor& tensor_of_it = wrong.at(name);
      if (tensor_of_it.shape.empty()) {
        tensor_of_it.shape = {2};  // one bound too many
      } else {
        ++tensor_of_it.shape.front();
      }
      int64_t count = 1;
      for (const int64_t extent : tensor_of_it.shape) count *= extent;
      tensor_of_it.bytes = test::bf16_bytes(count, [](int64_t) { return 1.0f; });
      expect_bad(tiny.config(), wrong, {name, "config.json asks for"});
    }
  }
}

TEST(VisionCheckpoint, a_tensor_that_the_config_knows_nothing_of_is_named) {
  const TinyVision small{.clipped = true}, large{.standardise = true};
  json config = small.config();
  config["vision_config"]["use_clipped_linears"] = false;
  expect_bad(config, small.tensors(), {".input_m", "has no place"});
  config = large.config();
  config["vision_config"]["standardize"] = false;
  expect_bad(config, large.tensors(), {kTower + "std_", "has no place"});
  config = large.config();
  config["vision_config"]["num_hidden_layers"] = 1;
  expect_bad(config, large.tensors(), {kTower + "encoder.layers.1.", "has no place"});
}

TEST(VisionCheckpoint, bounds_that_are_no_range_are_refused) {
  const TinyVision tiny{.clipped = true};
  for (const float worst : {3.0f, std::numeric_limits<float>::quiet_NaN()}) {
    FileTensors tensors = tiny.tensors();
    tensors.at(kTower + "encoder.layers.1.mlp.up_proj.input_min").bytes =
        test::bf16_bytes(1, [&](int64_t) { return worst; });
    expect_bad(tiny.config(), tensors, {"layers.1.mlp.up_proj", "bounds"});
  }
}

model::Config decoder(int vocab = 64) {
  model::Config config;
  config.hidden = 128;
  config.vocab = vocab;
  return config;
}

TEST(VisionConfig, what_the_tower_cannot_be_is_refused_by_the_name_of_the_field) {
  const auto expect_bad_field = [](const TinyVision& tiny, const char* field, const json& value) {
    json config = tiny.config();
    config["vision_config"][field] = value;
    SCOPED_TRACE(config["vision_config"].dump());
    test::expect_bad_file([&] { parse_vision_config(config.dump(), "config.json", decoder()); },
                          {"config.json", std::string("vision_config.") + field});
  };
  for (const char* field : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                            "position_embedding_size", "patch_size", "pooling_kernel_size"}) {
    expect_bad_field({}, field, 0);
    expect_bad_field({}, field, "many");
    expect_bad_field({}, field, int64_t{1} << 40);
  }
  for (const char* field : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
    expect_bad_field({}, field, nullptr);
  }
  expect_bad_field({}, "head_dim", 6);
  expect_bad_field({}, "num_key_value_heads", 1);
  expect_bad_field({}, "hidden_activation", "silu");
  expect_bad_field({}, "attention_bias", true);
  expect_bad_field({.unified = true}, "mm_embed_dim", nullptr);
  expect_bad_field({.unified = true}, "output_proj_dims", 16);
}

}  // namespace
}  // namespace slip::checkpoint
