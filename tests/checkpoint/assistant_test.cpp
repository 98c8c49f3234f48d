#include "checkpoint/assistant.h"

#include <gtest/gtest.h>

#include "checkpoint/draft_kind.h"
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

std::unique_ptr<AssistantCheckpoint> open_tiny(const TempFolder& folder, const json& config,
                                               const FileTensors& tensors,
                                               const model::Config& target = tiny_target()) {
  test::write_folder(folder, config, tensors);
  return open_assistant(folder.path(), target);
}

/// The config with one change is refused with a sentence that has all the words.
void expect_bad_config(const json& patch, std::initializer_list<std::string> words) {
  SCOPED_TRACE(patch.dump());
  const TempFolder folder;
  json config = TinyAssistant{.ordered = true}.config();
  config.merge_patch(patch);
  test::expect_bad_file([&] { open_tiny(folder, config, TinyAssistant{.ordered = true}.tensors()); }, words);
}

/// The same, and it is the sentence about another model.
void expect_other_model(const json& patch, std::initializer_list<std::string> words) {
  expect_bad_config(patch, {"config.json: this assistant belongs to another model"});
  expect_bad_config(patch, words);
}

void expect_bad_tensors(const FileTensors& tensors, std::initializer_list<std::string> words,
                        bool ordered = true) {
  const TempFolder folder;
  test::expect_bad_file([&] { open_tiny(folder, TinyAssistant{.ordered = ordered}.config(), tensors); },
                        words);
}

TEST(AssistantCheckpoint, OpensAndBindsEveryTensor) {
  const TempFolder folder;
  const TinyAssistant tiny{.ordered = true};
  const auto assistant = open_tiny(folder, tiny.config(), tiny.tensors());
  EXPECT_EQ(assistant->path, folder.path());
  EXPECT_EQ(assistant->format, "Hugging Face bf16");
  EXPECT_EQ(assistant->file_bytes, std::filesystem::file_size(folder / "model.safetensors"));
  EXPECT_TRUE(assistant->not_loaded.empty());
  EXPECT_EQ(assistant->config.text.hidden, 128);
  EXPECT_EQ(assistant->config.text.logit_softcap, 0);
  EXPECT_EQ(assistant->config.backbone_hidden, 128);
  EXPECT_EQ(assistant->config.centroids, 8);
  EXPECT_EQ(assistant->config.kept_centroids, 2);
  const model::AssistantWeights& weights = assistant->weights;
  ASSERT_EQ(weights.text.layers.size(), 3u);
  EXPECT_EQ(weights.pre_projection.cols, 256);
  EXPECT_EQ(weights.centroids.rows, 8);
  ASSERT_EQ(weights.ordering.size(), 40u);
  EXPECT_EQ(weights.ordering[0], 39);
  EXPECT_EQ(weights.ordering[39], 0);
  EXPECT_TRUE(weights.text.layers[2].q.present());
  EXPECT_FALSE(weights.text.layers[2].k.present());
  EXPECT_EQ(weights.text.layers[2].q_norm.size(), 128u);
}

TEST(AssistantCheckpoint, ReadsTheLastCacheOfEachKindThatTheTargetOwns) {
  const TinyAssistant tiny;
  {
    const TempFolder folder;
    const auto assistant = open_tiny(folder, tiny.config(), tiny.tensors());  // target: s f s f, all own
    const auto& layers = assistant->config.text.layers;
    EXPECT_EQ(layers[0].kv_source, 2);
    EXPECT_EQ(layers[1].kv_source, 2);
    EXPECT_EQ(layers[2].kv_source, 3);
    EXPECT_FALSE(layers[2].k_is_v);
  }
  {
    const TempFolder folder;
    const TinyModel shared{.shared = true, .k_is_v = true};  // layers 2 and 3 own nothing
    const auto assistant = open_tiny(folder, tiny.config(), tiny.tensors(), tiny_target(shared));
    const auto& layers = assistant->config.text.layers;
    EXPECT_EQ(layers[0].kv_source, 0);
    EXPECT_EQ(layers[1].kv_source, 0);
    EXPECT_EQ(layers[2].kv_source, 1);
    EXPECT_FALSE(layers[1].k_is_v);
    EXPECT_TRUE(layers[2].k_is_v);  // the source's, whatever the assistant's own file says
  }
}

TEST(AssistantCheckpoint, AcceptsBothSpellingsAndEveryWayToSayThatAllLayersShare) {
  const TinyAssistant tiny;
  for (const json& patch :
       {json{{"model_type", "gemma4_unified_assistant"}},
        json{{"text_config", {{"num_kv_shared_layers", 0}}}},
        json{{"text_config", {{"num_kv_shared_layers", nullptr}}}},
        json{{"text_config",
              {{"global_head_dim", nullptr},
               {"per_layer_config", {{"2", {{"head_dim", 128}, {"num_key_value_heads", 1}}}}}}}},
        json{{"use_ordered_embeddings", nullptr}, {"num_centroids", nullptr}}}) {
    SCOPED_TRACE(patch.dump());
    const TempFolder folder;
    json config = tiny.config();
    config.merge_patch(patch);
    const auto assistant = open_tiny(folder, config, tiny.tensors());
    EXPECT_EQ(assistant->config.centroids, 0);
    EXPECT_EQ(assistant->config.text.layers[2].head_dim, 128);
    EXPECT_EQ(assistant->config.text.layers[0].kv_source, 2);
  }
}

TEST(AssistantCheckpoint, ReadsShardsAndEveryFloatType) {
  const TinyAssistant tiny;
  FileTensors tensors = tiny.tensors(), other;
  const float value = 0.75f;
  std::string floats;
  for (int64_t i = 0; i < 2 * 128 * 128; ++i) floats.append(reinterpret_cast<const char*>(&value), 4);
  other["pre_projection.weight"] = {"F32", {128, 256}, floats};
  std::string halves;
  for (int64_t i = 0; i < 128 * 128; ++i) halves.append({0x00, 0x3a});  // 0.75
  other["post_projection.weight"] = {"F16", {128, 128}, halves};
  json index;
  for (const auto& [name, tensor] : tensors) index["weight_map"][name] = "a.safetensors";
  for (const auto& [name, tensor] : other) {
    index["weight_map"][name] = "b.safetensors";
    tensors.erase(name);
  }
  const TempFolder folder;
  folder.write("config.json", tiny.config().dump());
  folder.write("model.safetensors.index.json", index.dump());
  folder.write("a.safetensors", test::safetensors(tensors));
  folder.write("b.safetensors", test::safetensors(other));
  const auto assistant = open_assistant(folder.path(), tiny_target());
  EXPECT_EQ(assistant->files.size(), 2u);
  EXPECT_EQ(assistant->weights.pre_projection.bits, 32);
  for (const model::Matrix* matrix :
       {&assistant->weights.pre_projection, &assistant->weights.post_projection}) {
    std::vector<float> row(static_cast<size_t>(matrix->cols));
    tensor::RowReader(*matrix).floats(127, row.data());
    EXPECT_EQ(row.back(), value) << matrix->name;
  }
}

TEST(AssistantCheckpoint, ReadsMlxFilesWithAnyMatrixQuantised) {
  const TinyAssistant tiny{.ordered = true};
  FileTensors tensors = tiny.tensors();
  for (const char* module : {"model.embed_tokens", "pre_projection", "post_projection",
                             "masked_embedding.centroids", "model.layers.1.mlp.down_proj"}) {
    test::quantise(tensors, module, 4, 64);
  }
  tensors["masked_embedding.token_ordering"] = {
      "I32", {TinyModel::kVocab}, test::integer_bytes<int32_t>(TinyAssistant::order())};
  json config = tiny.config();
  config["quantization"] = {{"bits", 4}, {"group_size", 64}};
  const TempFolder folder;
  const auto assistant = open_tiny(folder, config, tensors);
  EXPECT_EQ(assistant->format, "MLX affine 4-bit, group 64");
  EXPECT_EQ(assistant->weights.text.embed.bits, 4);
  EXPECT_EQ(assistant->weights.pre_projection.group, 64);
  EXPECT_EQ(assistant->weights.centroids.encoding, tensor::Encoding::kAffine);
  EXPECT_EQ(assistant->weights.text.layers[0].q.encoding, tensor::Encoding::kFloat);
  EXPECT_EQ(assistant->weights.ordering[3], 36);
}

TEST(AssistantCheckpoint, ListsARedundantHeadAndUnusedCentroidsAsNotLoaded) {
  const TinyAssistant dense;
  FileTensors tensors = TinyAssistant{.ordered = true}.tensors();
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  const TempFolder folder;
  const auto assistant = open_tiny(folder, dense.config(), tensors);
  ASSERT_EQ(assistant->not_loaded.size(), 2u);
  EXPECT_EQ(assistant->not_loaded[0].group, "lm_head");
  EXPECT_EQ(assistant->not_loaded[1].group, "masked_embedding");
  EXPECT_EQ(assistant->not_loaded[1].tensors, 2);
  EXPECT_TRUE(assistant->weights.ordering.empty());
}

TEST(AssistantCheckpoint, RefusesKeysAndValuesOfItsOwn) {
  for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight"}) {
    FileTensors tensors = TinyAssistant{.ordered = true}.tensors();
    test::add_tensor(tensors, std::string("model.layers.0.self_attn.") + name, {64, 128});
    expect_bad_tensors(tensors, {"model.safetensors", name, "makes keys or values"});
  }
}

TEST(AssistantCheckpoint, RefusesMissingStrayAndMisshapenTensors) {
  FileTensors tensors = TinyAssistant{.ordered = true}.tensors();
  tensors.erase("pre_projection.weight");
  expect_bad_tensors(tensors, {"'pre_projection.weight' is missing"});
  tensors = TinyAssistant{.ordered = true}.tensors();
  test::add_tensor(tensors, "model.layers.3.mlp.gate_proj.weight", {256, 128});
  expect_bad_tensors(tensors, {"'model.layers.3.mlp.gate_proj.weight'", "has no place"});
  tensors = TinyAssistant{.ordered = true}.tensors();
  test::add_tensor(tensors, "post_projection.weight", {64, 128});
  expect_bad_tensors(tensors, {"'post_projection.weight'", "[64, 128]", "[128, 128]"});
  expect_bad_tensors(TinyAssistant{}.tensors(), {"'masked_embedding.centroids.weight' is missing"});
}

TEST(AssistantCheckpoint, RefusesAnOrderingThatIsNoPermutation) {
  const auto with = [](const char* dtype, const std::string& bytes, int64_t count = TinyModel::kVocab) {
    FileTensors tensors = TinyAssistant{.ordered = true}.tensors();
    tensors["masked_embedding.token_ordering"] = {dtype, {count}, bytes};
    return tensors;
  };
  std::vector<int64_t> ids = TinyAssistant::order();
  ids[5] = 40;
  expect_bad_tensors(with("I64", test::integer_bytes<int64_t>(ids)),
                     {"token_ordering", "token id 40 at 5", "vocabulary of 40"});
  ids[5] = -1;
  expect_bad_tensors(with("I32", test::integer_bytes<int32_t>(ids)), {"token id -1 at 5"});
  ids[5] = int64_t{1} << 32;  // 0 when cut to 32 bits
  expect_bad_tensors(with("I64", test::integer_bytes<int64_t>(ids)), {"token id 4294967296 at 5"});
  ids[5] = 39;
  expect_bad_tensors(with("I64", test::integer_bytes<int64_t>(ids)), {"token id 39 twice"});
  ids.pop_back();
  expect_bad_tensors(with("I64", test::integer_bytes<int64_t>(ids), 39), {"token_ordering", "[39]", "[40]"});
  expect_bad_tensors(with("BF16", std::string(80, '\0')), {"token_ordering", "BF16", "I64 or I32"});
}

TEST(AssistantCheckpoint, RefusesTheAssistantOfAnotherModel) {
  expect_other_model({{"backbone_hidden_size", 256}}, {"backbone_hidden_size is 256", "hidden_size is 128"});
  expect_other_model({{"text_config", {{"vocab_size", 48}}}}, {"vocab_size is 48", "vocab_size is 40"});
  expect_other_model({{"text_config", {{"sliding_window", 16}}}},
                     {"sliding_window is 16", "sliding_window is 8"});
  expect_other_model({{"text_config", {{"num_key_value_heads", 2}}}},
                     {"layer 0 has key/value heads: 2", "layer 2 of the model", "has 1"});
  expect_other_model({{"text_config", {{"head_dim", 32}}}}, {"layer 0 has a head_dim of 32", "has 64"});
  expect_other_model({{"text_config", {{"global_head_dim", 64}}}},
                     {"layer 2 has a head_dim of 64", "layer 3 of the model", "has 128"});
  const auto rope = [](const json& full) {
    return json{{"text_config", {{"rope_parameters", {{"full_attention", full}}}}}};
  };
  expect_other_model(rope({{"rope_theta", 20000.0}}), {"rope_theta of 20000", "has 1000000"});
  expect_other_model(rope({{"partial_rotary_factor", 0.5}}), {"rotated pairs: 32", "has 16"});
  expect_other_model(rope({{"factor", 2.0}}), {"rope factor of 2", "has 1"});
}

TEST(AssistantCheckpoint, RefusesAKindOfLayerThatTheTargetDoesNotHave) {
  model::Config target = tiny_target();
  for (auto& layer : target.layers) layer.kind = model::LayerKind::kFull;
  const TempFolder folder;
  test::expect_bad_file(
      [&] { open_tiny(folder, TinyAssistant{}.config(), TinyAssistant{}.tensors(), target); },
      {"belongs to another model", "layer 0", "sliding attention", "4 layers"});
}

TEST(AssistantCheckpoint, RefusesConfigsThatMakeNoSense) {
  expect_bad_config({{"backbone_hidden_size", nullptr}}, {"backbone_hidden_size"});
  expect_bad_config({{"num_centroids", 7}}, {"vocabulary of 40", "7 centroids"});
  expect_bad_config({{"num_centroids", nullptr}}, {"num_centroids"});
  expect_bad_config({{"centroid_intermediate_top_k", 9}}, {"centroid_intermediate_top_k", "from 1 to 8"});
  expect_bad_config({{"text_config", {{"num_kv_shared_layers", 2}}}},
                    {"text_config.num_kv_shared_layers is 2", "all 3 layers"});
  expect_bad_config({{"text_config", {{"num_attention_heads", 3}, {"num_key_value_heads", 2}}}},
                    {"3 attention heads", "2 key/value heads"});
  expect_bad_config({{"text_config", {{"hidden_size_per_layer_input", 64}}}}, {"no per-layer embeddings"});
  expect_bad_config({{"text_config", {{"enable_moe_block", true}}}}, {"no experts"});
  expect_bad_config({{"text_config", {{"hidden_activation", "silu"}}}}, {"gelu_pytorch_tanh"});
}

TEST(AssistantCheckpoint, SaysWhatAFolderIsThatIsNoAssistant) {
  const TempFolder folder;
  folder.write("model/config.json", TinyModel{}.config());
  test::expect_bad_file([&] { open_assistant(folder / "model", tiny_target()); },
                        {"this is a Gemma 4 model ('gemma4'), not a Gemma 4 assistant"});
  folder.write("dflash/config.json", TinyDflash::config().dump());
  test::expect_bad_file([&] { open_assistant(folder / "dflash", tiny_target()); },
                        {"this is a DFlash drafter ('qwen3'), not a Gemma 4 assistant"});
  folder.write("other/config.json", R"({"model_type":"llama"})");
  test::expect_bad_file([&] { open_assistant(folder / "other", tiny_target()); },
                        {"model_type is 'llama', so this is not a Gemma 4 assistant"});
  test::expect_bad_file([&] { open_assistant(folder.path(), tiny_target()); }, {"no config.json"});
}

TEST(DraftKind, IsToldFromConfigJson) {
  const TempFolder folder;
  const auto kind = [&](const json& config) {
    folder.write("config.json", config.dump());
    return kind_of_draft_folder(folder.path());
  };
  EXPECT_EQ(kind(TinyAssistant{}.config()), DraftKind::kAssistant);
  EXPECT_EQ(kind({{"model_type", "gemma4_unified_assistant"}}), DraftKind::kAssistant);
  EXPECT_EQ(kind(TinyDflash::config()), DraftKind::kDflash);
  EXPECT_EQ(kind({{"speculators_model_type", "dflash"}}), DraftKind::kDflash);
  EXPECT_EQ(kind({{"model_type", "gemma4_text"}, {"architectures", {"Gemma4DFlashModel"}}}),
            DraftKind::kDflash);
  EXPECT_EQ(kind(json::parse(TinyModel{}.config())), DraftKind::kTarget);
  EXPECT_EQ(kind({{"model_type", "qwen3"}}), DraftKind::kUnknown);
  EXPECT_EQ(kind(json::object()), DraftKind::kUnknown);
  test::expect_bad_file([&] { kind(json::array()); }, {"config.json"});
  test::expect_bad_file([&] { kind_of_draft_folder(folder / "nowhere"); }, {"no such folder"});
}

}  // namespace
}  // namespace slip::checkpoint
