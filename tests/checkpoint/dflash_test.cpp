#include "checkpoint/dflash.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/tiny_drafters.h"

namespace slip::checkpoint {
namespace {

using nlohmann::json;
using test::FileTensors;
using test::TempFolder;
using test::tiny_target;
using test::TinyAssistant;
using test::TinyDflash;
using test::TinyModel;

std::unique_ptr<DflashCheckpoint> open_tiny(const TempFolder& folder, const json& patch = json::object(),
                                            const FileTensors& tensors = TinyDflash::tensors()) {
  json config = TinyDflash::config();
  config.merge_patch(patch);
  test::write_folder(folder, config, tensors);
  return open_dflash(folder.path(), tiny_target());
}

void expect_bad(const json& patch, std::initializer_list<std::string> words,
                const FileTensors& tensors = TinyDflash::tensors()) {
  SCOPED_TRACE(patch.dump());
  const TempFolder folder;
  test::expect_bad_file([&] { open_tiny(folder, patch, tensors); }, words);
}

void expect_other_model(const json& patch, std::initializer_list<std::string> words) {
  expect_bad(patch, {"config.json: this DFlash drafter belongs to another model"});
  expect_bad(patch, words);
}

TEST(DflashCheckpoint, OpensAndBindsEveryTensor) {
  const TempFolder folder;
  const auto drafter = open_tiny(folder);
  EXPECT_EQ(drafter->path, folder.path());
  EXPECT_EQ(drafter->format, "Hugging Face bf16");
  EXPECT_EQ(drafter->file_bytes, std::filesystem::file_size(folder / "model.safetensors"));
  EXPECT_TRUE(drafter->not_loaded.empty());
  const model::DflashConfig& config = drafter->config;
  EXPECT_EQ(config.block, 4);
  EXPECT_EQ(config.mask_id, 4);
  EXPECT_EQ(config.taps, (std::vector<int>{1, 3}));
  EXPECT_EQ(config.text.activation, model::Activation::kSilu);
  EXPECT_EQ(config.text.window, 6);
  EXPECT_EQ(config.text.logit_softcap, 20);
  EXPECT_FLOAT_EQ(config.text.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.text.embed_scale, tiny_target().embed_scale);
  ASSERT_EQ(config.text.layers.size(), 2u);
  EXPECT_EQ(config.text.layers[0].kind, model::LayerKind::kSliding);
  EXPECT_EQ(config.text.layers[1].kind, model::LayerKind::kFull);
  for (int i = 0; i < 2; ++i) {
    const model::LayerConfig& layer = config.text.layers[static_cast<size_t>(i)];
    EXPECT_EQ(layer.kv_source, i);
    EXPECT_EQ(layer.rotated_pairs, 16);
    EXPECT_EQ(layer.rope_theta, 1e6);
    EXPECT_FALSE(layer.v_norm);
    EXPECT_FALSE(layer.k_is_v);
  }
  const model::DflashWeights& weights = drafter->weights;
  EXPECT_EQ(weights.fc.cols, 256);
  EXPECT_EQ(weights.context_norm.size(), 128u);
  EXPECT_FALSE(weights.text.embed.present());
  const model::LayerWeights& layer = weights.text.layers[1];
  EXPECT_EQ(layer.k.rows, 64);
  EXPECT_TRUE(layer.post_attention_norm.empty());
  EXPECT_TRUE(layer.post_mlp_norm.empty());
  EXPECT_EQ(layer.scalar, 1);
}

TEST(DflashCheckpoint, PutsTheAttentionScaleIntoTheQueryNorm) {
  const TempFolder folder;
  FileTensors tensors = TinyDflash::tensors();
  tensors["layers.0.self_attn.q_norm.weight"].bytes = test::bf16_bytes(32, [](int64_t) { return 2.0f; });
  tensors["layers.0.self_attn.k_norm.weight"].bytes = test::bf16_bytes(32, [](int64_t) { return 2.0f; });
  const auto drafter = open_tiny(folder, json::object(), tensors);
  EXPECT_FLOAT_EQ(drafter->weights.text.layers[0].q_norm[7], 2.0f / std::sqrt(32.0f));
  EXPECT_EQ(drafter->weights.text.layers[0].k_norm[7], 2.0f);
}

TEST(DflashCheckpoint, AcceptsTheOtherSpellings) {
  const TempFolder folder;
  EXPECT_EQ(open_tiny(folder, {{"rope_parameters", nullptr}, {"rope_theta", 5e5}})
                ->config.text.layers[0]
                .rope_theta,
            5e5);
  EXPECT_EQ(open_tiny(folder, {{"final_logit_softcapping", nullptr}})->config.text.logit_softcap, 30);
  EXPECT_EQ(open_tiny(folder, {{"num_target_layers", nullptr}})->config.text.layer_count(), 2);
  const auto full = open_tiny(folder, {{"layer_types", nullptr}, {"sliding_window", nullptr}});
  EXPECT_EQ(full->config.text.layers[0].kind, model::LayerKind::kFull);
  const auto late =
      open_tiny(folder, {{"layer_types", nullptr}, {"use_sliding_window", true}, {"max_window_layers", 1}});
  EXPECT_EQ(late->config.text.layers[0].kind, model::LayerKind::kFull);
  EXPECT_EQ(late->config.text.layers[1].kind, model::LayerKind::kSliding);
  FileTensors prefixed;
  for (const auto& [name, tensor] : TinyDflash::tensors()) prefixed["model." + name] = tensor;
  EXPECT_TRUE(open_tiny(folder, json::object(), prefixed)->weights.fc.present());
}

TEST(DflashCheckpoint, ReadsMlxFiles) {
  FileTensors tensors = TinyDflash::tensors();
  test::quantise(tensors, "fc", 8, 32);
  test::quantise(tensors, "layers.1.self_attn.k_proj", 8, 32);
  const TempFolder folder;
  const auto drafter = open_tiny(folder, {{"quantization", {{"bits", 8}, {"group_size", 32}}}}, tensors);
  EXPECT_EQ(drafter->format, "MLX affine 8-bit, group 32");
  EXPECT_EQ(drafter->weights.fc.bits, 8);
  EXPECT_EQ(drafter->weights.text.layers[1].k.group, 32);
}

TEST(DflashCheckpoint, RefusesTheDrafterOfAnotherModel) {
  expect_other_model({{"hidden_size", 64}}, {"hidden_size is 64", "hidden_size is 128"});
  expect_other_model({{"vocab_size", 41}}, {"vocab_size is 41", "vocab_size is 40"});
  expect_other_model({{"num_target_layers", 6}}, {"num_target_layers is 6", "number of layers is 4"});
  expect_other_model({{"dflash_config", {{"target_layer_ids", {1, 4}}}}},
                     {"it reads layer 4", "layers are 0 to 3"});
  expect_other_model({{"dflash_config", {{"target_layer_ids", {-1}}}}}, {"it reads layer -1"});
}

TEST(DflashCheckpoint, RefusesOtherFamiliesAndSaysWhichOneItRuns) {
  expect_bad({{"speculators_model_type", "dflash"}}, {"speculators format", "z-lab's family"});
  expect_bad({{"speculators_config", json::object()}}, {"speculators format", "z-lab's family"});
  expect_bad({{"architectures", {"Gemma4DFlashModel"}}}, {"is a 'Gemma4DFlashModel'", "z-lab's family"});
  expect_bad({{"dflash_config", nullptr}}, {"has no dflash_config", "z-lab's family"});
  FileTensors tensors = TinyDflash::tensors();
  test::add_tensor(tensors, "model.embed_tokens.weight", {40, 128});
  expect_bad(json::object(),
             {"'model.embed_tokens.weight'", "embeddings of its own", "DeepSeek", "z-lab's family"}, tensors);
  tensors = TinyDflash::tensors();
  test::add_tensor(tensors, "lm_head.weight", {40, 128});
  expect_bad(json::object(), {"'lm_head.weight'", "embeddings of its own"}, tensors);
}

TEST(DflashCheckpoint, RefusesWhatItCannotCompute) {
  expect_bad({{"hidden_act", "gelu"}}, {"hidden_act is 'gelu'", "silu"});
  expect_bad({{"attention_bias", true}}, {"attention_bias is true"});
  expect_bad({{"dflash_config", {{"causal", true}}}}, {"dflash_config.causal is true"});
  expect_bad({{"rope_parameters", {{"rope_type", "yarn"}}}}, {"rope_parameters.rope_type is 'yarn'"});
  expect_bad({{"rope_parameters", nullptr}}, {"no rope_theta"});
}

TEST(DflashCheckpoint, RefusesConfigsThatMakeNoSense) {
  expect_bad({{"block_size", 1}}, {"block_size", "from 2 to"});
  expect_bad({{"block_size", nullptr}}, {"block_size"});
  expect_bad({{"dflash_config", {{"mask_token_id", 40}}}}, {"dflash_config.mask_token_id", "from 0 to 39"});
  expect_bad({{"dflash_config", {{"target_layer_ids", json::array()}}}}, {"target_layer_ids must be a list"});
  expect_bad({{"dflash_config", {{"target_layer_ids", {"1"}}}}}, {"target_layer_ids must be a list"});
  expect_bad({{"num_attention_heads", 3}}, {"3 attention heads", "2 key/value heads"});
  expect_bad({{"head_dim", 31}}, {"head_dim is 31", "even"});
  expect_bad({{"layer_types", {"full_attention"}}}, {"layer_types lists 1 layers", "num_hidden_layers is 2"});
  expect_bad({{"layer_types", {"full_attention", "linear"}}}, {"'linear'"});
  expect_bad({{"sliding_window", nullptr}}, {"sliding attention", "no sliding_window"});
}

TEST(DflashCheckpoint, RefusesMissingAndStrayTensors) {
  FileTensors tensors = TinyDflash::tensors();
  tensors.erase("hidden_norm.weight");
  expect_bad(json::object(), {"'hidden_norm.weight' is missing"}, tensors);
  tensors = TinyDflash::tensors();
  test::add_tensor(tensors, "markov_head.weight", {4, 4});
  expect_bad(json::object(), {"'markov_head.weight'", "has no place"}, tensors);
  expect_bad({{"dflash_config", {{"target_layer_ids", {0, 1, 2}}}}},
             {"'fc.weight'", "[128, 256]", "[128, 384]"});
}

TEST(DflashCheckpoint, SaysWhatAFolderIsThatIsNoDflashDrafter) {
  const TempFolder folder;
  folder.write("model/config.json", TinyModel{}.config());
  test::expect_bad_file([&] { open_dflash(folder / "model", tiny_target()); },
                        {"this is a Gemma 4 model ('gemma4'), not a DFlash drafter"});
  folder.write("assistant/config.json", TinyAssistant{}.config().dump());
  test::expect_bad_file([&] { open_dflash(folder / "assistant", tiny_target()); },
                        {"this is a Gemma 4 assistant ('gemma4_assistant'), not a DFlash drafter"});
}

}  // namespace
}  // namespace slip::checkpoint
