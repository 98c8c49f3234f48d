#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "checkpoint/tiny_model.h"

namespace slip::checkpoint {
namespace {

using model::LayerConfig;
using model::LayerKind;
using nlohmann::json;
using test::TinyModel;

/// The tiny model's config with `patch` merged over its text part; a null in the patch removes a key.
json patched(const TinyModel& model, const char* patch) {
  json config = json::parse(model.config());
  config["text_config"].merge_patch(json::parse(patch));
  return config;
}

model::Config config_of(const json& source) {
  return parse_config(source.dump(), "config.json").config;
}
model::Config text_patch(const TinyModel& model, const char* patch) {
  return config_of(patched(model, patch));
}

void expect_bad(const TinyModel& model, const char* patch, std::initializer_list<std::string> words) {
  SCOPED_TRACE(patch);
  test::expect_bad_file([&] { text_patch(model, patch); }, words);
}

TEST(Config, a_dense_model_reads_as_it_is_written) {
  const auto parsed = parse_config(TinyModel{}.config(), "config.json");
  const model::Config& config = parsed.config;
  EXPECT_EQ(config.model_type, "gemma4");
  EXPECT_EQ(config.vocab, 40);
  EXPECT_EQ(config.hidden, 128);
  EXPECT_EQ(config.window, 8);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_EQ(config.logit_softcap, 30.0f);
  EXPECT_EQ(config.norm_epsilon, 1e-6f);
  EXPECT_EQ(config.embed_scale, round_to_bf16(11.3137085f));
  EXPECT_EQ(config.per_layer_dim, 0);
  EXPECT_EQ(config.per_layer_vocab, 0);
  EXPECT_EQ(config.experts, 0);
  EXPECT_EQ(config.pad_id, 0);
  EXPECT_EQ(config.bos_id, 2);
  EXPECT_EQ(config.eos_ids, std::vector<int>{1});
  EXPECT_TRUE(parsed.tied_head);
  EXPECT_FALSE(parsed.quantization.present);
  ASSERT_EQ(config.layer_count(), 4);
  for (int i = 0; i < 4; ++i) {
    const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    EXPECT_EQ(layer.kind, i % 2 == 0 ? LayerKind::kSliding : LayerKind::kFull);
    EXPECT_EQ(layer.heads, 2);
    EXPECT_EQ(layer.kv_heads, 1);
    EXPECT_EQ(layer.head_dim, i % 2 == 0 ? 64 : 128);
    EXPECT_EQ(layer.intermediate, 128);
    EXPECT_EQ(layer.kv_source, i);
    EXPECT_FALSE(layer.k_is_v);
    EXPECT_EQ(layer.rotated_pairs, i % 2 == 0 ? 32 : 16);  // floor(0.25 * 128 / 2)
    EXPECT_EQ(layer.rope_theta, i % 2 == 0 ? 1e4 : 1e6);
    EXPECT_EQ(layer.rope_factor, 1);
  }
}

TEST(Config, a_text_only_export_has_its_fields_at_the_top) {
  json config = json::parse(TinyModel{}.config())["text_config"];
  config["model_type"] = "gemma4_text";
  EXPECT_EQ(config_of(config).model_type, "gemma4_text");
  EXPECT_EQ(config_of(config).layer_count(), 4);
}

TEST(Config, both_spellings_of_the_full_layers_give_the_same_layers) {
  const TinyModel model{.k_is_v = true};
  const auto old_spelling = text_patch(model, R"({"num_key_value_heads":2,"num_global_key_value_heads":1})");
  const auto new_spelling = text_patch(model, R"({"num_key_value_heads":2,"global_head_dim":null,
          "per_layer_config":{"1":{"head_dim":128,"num_key_value_heads":1},"3":{"head_dim":128,"num_key_value_heads":1}}})");
  for (const auto& config : {old_spelling, new_spelling}) {
    for (const LayerConfig& layer : config.layers) {
      const bool full = layer.kind == LayerKind::kFull;
      EXPECT_EQ(layer.head_dim, full ? 128 : 64);
      EXPECT_EQ(layer.kv_heads, full ? 1 : 2);
      EXPECT_EQ(layer.k_is_v, full);
    }
  }
}

TEST(Config, the_global_count_of_kv_heads_means_nothing_without_k_equal_to_v) {
  const auto config = text_patch({}, R"({"num_key_value_heads":2,"num_global_key_value_heads":1})");
  for (const LayerConfig& layer : config.layers) EXPECT_EQ(layer.kv_heads, 2);
}

TEST(Config, a_full_head_size_that_nobody_gives_is_512) {
  EXPECT_EQ(text_patch({}, R"({"global_head_dim":null})").layers[1].head_dim, 512);
  json given_as_null = patched({}, "{}");
  given_as_null["text_config"]["global_head_dim"] = nullptr;
  EXPECT_EQ(config_of(given_as_null).layers[1].head_dim, 64);
}

TEST(Config, without_layer_types_every_sixth_layer_is_full_and_always_the_last) {
  const auto config = text_patch({}, R"({"layer_types":null,"num_hidden_layers":8})");
  ASSERT_EQ(config.layer_count(), 8);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(config.layers[static_cast<size_t>(i)].kind,
              i == 5 || i == 7 ? LayerKind::kFull : LayerKind::kSliding);
  }
  const auto forced =
      text_patch({}, R"({"num_hidden_layers":2,"layer_types":["full_attention","sliding_attention"]})");
  EXPECT_EQ(forced.layers[1].kind, LayerKind::kFull);
}

TEST(Config, shared_layers_read_the_last_earlier_layer_of_their_kind_and_are_double_wide) {
  const auto config =
      text_patch({.shared = true}, R"({"num_hidden_layers":7,"num_kv_shared_layers":3,"layer_types":[
      "sliding_attention","full_attention","sliding_attention","sliding_attention",
      "sliding_attention","full_attention","full_attention"]})");
  std::vector<int> sources, inner;
  for (const LayerConfig& layer : config.layers) {
    sources.push_back(layer.kv_source);
    inner.push_back(layer.intermediate);
  }
  EXPECT_EQ(sources, (std::vector<int>{0, 1, 2, 3, 3, 1, 1}));
  EXPECT_EQ(inner, (std::vector<int>{128, 128, 128, 128, 256, 256, 256}));
  EXPECT_EQ(config.last_kv_layer(), 3);
  expect_bad({.shared = true}, R"({"num_kv_shared_layers":3})", {"layer 1", "none before layer 1"});
  expect_bad({.shared = true}, R"({"num_kv_shared_layers":4})", {"num_kv_shared_layers", "0 to 3"});
  expect_bad({.shared = true}, R"({"per_layer_config":{"3":{"head_dim":32}}})",
             {"layer 3", "layer 1", "differ"});
}

TEST(Config, rope_is_read_in_its_newer_and_older_forms) {
  const auto newer = text_patch({}, R"({"rope_parameters":{
      "full_attention":{"rope_type":"proportional","partial_rotary_factor":0.3,"rope_theta":5e5,"factor":8},
      "sliding_attention":{"rope_type":"default","rope_theta":2e4}}})");
  EXPECT_EQ(newer.layers[0].rope_theta, 2e4);
  EXPECT_EQ(newer.layers[0].rotated_pairs, 32);
  EXPECT_EQ(newer.layers[1].rope_theta, 5e5);
  EXPECT_EQ(newer.layers[1].rope_factor, 8);
  EXPECT_EQ(newer.layers[1].rotated_pairs, 19);  // floor(0.3 * 128 / 2)
  const auto older = text_patch({}, R"({"rope_theta":3e5,"rope_local_base_freq":123,"rope_scaling":
      {"rope_type":"linear","factor":4}})");
  EXPECT_EQ(older.layers[0].rope_theta, 123);
  EXPECT_EQ(older.layers[0].rope_factor, 1);
  EXPECT_EQ(older.layers[1].rope_theta, 3e5);
  EXPECT_EQ(older.layers[1].rope_factor, 4);
  EXPECT_EQ(older.layers[1].rotated_pairs, 64);
  expect_bad({}, R"({"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":2}}})",
             {"full_attention.rope_type", "'yarn'"});
  expect_bad(
      {}, R"({"rope_parameters":{"sliding_attention":{"rope_type":"default","partial_rotary_factor":0.5}}})",
      {"partial_rotary_factor", "0.5"});
  expect_bad({}, R"({"rope_parameters":{"full_attention":{"rope_theta":0}}})", {"rope_theta"});
  expect_bad({}, R"({"rope_parameters":7})", {"rope_parameters must be an object"});
}

TEST(Config, per_layer_embeddings_are_there_by_their_width) {
  const auto with = config_of(json::parse(TinyModel{.per_layer = true}.config()));
  EXPECT_EQ(with.per_layer_dim, 128);
  EXPECT_EQ(with.per_layer_vocab, 40);
  EXPECT_EQ(text_patch({}, R"({"hidden_size_per_layer_input":null})").per_layer_dim,
            256);  // absent: as published
  json unified = patched({}, R"({"hidden_size_per_layer_input":null})");
  unified["model_type"] = "gemma4_unified";
  EXPECT_EQ(config_of(unified).per_layer_dim, 0);
}

TEST(Config, experts_count_only_where_they_are_enabled) {
  const auto config = config_of(json::parse(TinyModel{.experts = true}.config()));
  EXPECT_EQ(config.experts, 4);
  EXPECT_EQ(config.experts_per_token, 2);
  EXPECT_EQ(config.expert_intermediate, 128);
  const auto renamed =
      text_patch({.experts = true}, R"({"moe_intermediate_size":null,"expert_intermediate_size":96})");
  EXPECT_EQ(renamed.expert_intermediate, 96);
  EXPECT_EQ(text_patch({}, R"({"num_experts":8})").experts, 0);
  expect_bad({.experts = true}, R"({"top_k_experts":5})", {"top_k_experts", "only 4 experts"});
  expect_bad({.experts = true}, R"({"num_experts":null})", {"num_experts is missing"});
  expect_bad({.experts = true}, R"({"moe_intermediate_size":0})", {"moe_intermediate_size"});
}

TEST(Config, end_ids_are_one_number_or_a_list_and_the_top_wins) {
  EXPECT_EQ(text_patch({}, R"({"eos_token_id":7})").eos_ids, std::vector<int>{7});
  json config = patched({}, R"({"eos_token_id":7})");
  config["eos_token_id"] = {1, 30};
  EXPECT_EQ(config_of(config).eos_ids, (std::vector<int>{1, 30}));
  expect_bad({}, R"({"eos_token_id":40})", {"eos_token_id", "0 to 39"});
  expect_bad({}, R"({"eos_token_id":[-1]})", {"eos_token_id"});
  expect_bad({}, R"({"bos_token_id":[1,2]})", {"bos_token_id", "one token id"});
}

TEST(Config, an_untied_head_is_noticed) {
  json config = patched({}, R"({"tie_word_embeddings":true})");
  config["tie_word_embeddings"] = false;
  EXPECT_FALSE(parse_config(config.dump(), "config.json").tied_head);
}

TEST(Config, what_is_no_gemma_4_text_model_is_named) {
  json config = patched({}, "{}");
  const auto expect_type = [&](const char* type, std::initializer_list<std::string> words) {
    config["model_type"] = type;
    test::expect_bad_file([&] { config_of(config); }, words);
  };
  expect_type("llama", {"config.json", "'llama'", "Gemma 4"});
  expect_type("gemma3", {"'gemma3'", "Gemma 4"});
  expect_type("gemma4_vision", {"'gemma4_vision'"});
  expect_type("gemma4_assistant", {"drafter", "not a model"});
  expect_type("gemma4_unified_assistant", {"drafter"});
  config["dflash_config"] = json::object();
  expect_type("qwen3", {"drafter"});
  config.erase("model_type");
  test::expect_bad_file([&] { config_of(config); }, {"no model_type"});
  expect_bad({}, R"({"hidden_activation":"silu"})", {"hidden_activation", "'silu'"});
  expect_bad({}, R"({"attention_bias":true})", {"attention_bias"});
  expect_bad({}, R"({"use_bidirectional_attention":"all"})", {"use_bidirectional_attention"});
}

TEST(Config, sizes_that_do_not_fit_together_are_refused) {
  expect_bad({}, R"({"num_key_value_heads":3})", {"layer 0", "2 attention heads", "3 key/value heads"});
  expect_bad({}, R"({"sliding_window":0})", {"text_config.sliding_window", "found 0"});
  expect_bad({}, R"({"layer_types":["full_attention"]})",
             {"layer_types", "1 layers", "num_hidden_layers is 4"});
  expect_bad({}, R"({"num_hidden_layers":1,"layer_types":["linear_attention"]})", {"'linear_attention'"});
  expect_bad({}, R"({"head_dim":63})", {"layer 0", "63", "even"});
  expect_bad({}, R"({"per_layer_config":{"9":{"head_dim":8}}})", {"per_layer_config", "'9'", "0 to 3"});
  expect_bad({}, R"({"per_layer_config":{"x":{"head_dim":8}}})", {"'x'"});
  expect_bad({}, R"({"per_layer_config":{"1":{"bogus":8}}})", {"per_layer_config.1.bogus"});
  expect_bad({}, R"({"vocab_size_per_layer_input":7,"hidden_size_per_layer_input":128})",
             {"vocab_size_per_layer_input"});
}

TEST(Config, every_size_must_be_there_and_within_reason) {
  for (const char* key : {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "intermediate_size"}) {
    for (const char* value : {"0", "-1", "1e9", "1.5", "\"8\"", "true", "[8]", "9223372036854775807",
                              "18446744073709551615", "99999999999999999999"}) {
      const std::string patch = std::string("{\"") + key + "\":" + value + "}";
      expect_bad({}, patch.c_str(), {"config.json", key});
    }
    const std::string patch = std::string("{\"") + key + "\":null}";
    expect_bad({}, patch.c_str(), {key, "is missing"});
  }
}

TEST(Config, text_that_is_no_json_object_is_refused) {
  const auto bad = [](const std::string& text, std::initializer_list<std::string> words) {
    test::expect_bad_file([&] { parse_config(text, "config.json"); }, words);
  };
  bad("", {"config.json", "not valid JSON"});
  bad("{\"model_type\":", {"not valid JSON", "line 1"});
  bad("[1]", {"one JSON object"});
  bad(std::string(100000, '['), {"nested"});
  bad(R"({"model_type":"gemma4","model_type":"gemma4"})", {"'model_type'", "twice"});
  bad(R"({"model_type":"gemma4","text_config":[]})", {"text_config must be an object"});
  bad(R"({"model_type":4})", {"model_type must be a string"});
}

TEST(Quantization, the_table_has_defaults_exceptions_and_modules_left_alone) {
  json config = patched({}, "{}");
  config["quantization"] = json::parse(R"({"group_size":64,"bits":4,"a.b":{"bits":8},"c":false,"d":true,
      "e":{"group_size":32,"bits":6,"mode":"mxfp4"}})");
  config["quantization_config"] = {{"quant_method", "ignored, since MLX wrote the other key"}};
  const auto table = parse_config(config.dump(), "config.json").quantization;
  EXPECT_TRUE(table.present);
  EXPECT_EQ(table.of("other").bits, 4);
  EXPECT_EQ(table.of("d").group, 64);
  EXPECT_EQ(table.of("a.b").bits, 8);
  EXPECT_EQ(table.of("a.b").group, 64);
  EXPECT_FALSE(table.of("c").quantized);
  EXPECT_EQ(table.of("e").mode, "mxfp4");
}

TEST(Quantization, schemes_that_cannot_be_read_are_named) {
  json config = patched({}, "{}");
  config["quantization"] = {{"group_size", 32}, {"bits", 4}, {"mode", "mxfp4"}};
  test::expect_bad_file([&] { config_of(config); }, {"'mxfp4'", "affine"});
  config.erase("quantization");
  config["quantization_config"] = {{"quant_method", "compressed-tensors"}};
  test::expect_bad_file([&] { config_of(config); }, {"'compressed-tensors'"});
  config["quantization_config"] = 4;
  test::expect_bad_file([&] { config_of(config); }, {"quantization_config must be an object"});
}

}  // namespace
}  // namespace slip::checkpoint
