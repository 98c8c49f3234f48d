#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/tiny_model.h"

namespace slip::checkpoint {
namespace {

using nlohmann::json;
using tensor::Encoding;
using tensor::Matrix;
using test::AffineValue;
using test::FileTensors;
using test::TinyModel;

std::unique_ptr<Checkpoint> open_model(const test::TempFolder& folder, const std::string& config,
                                       const FileTensors& tensors) {
  folder.write("config.json", config);
  folder.write("model.safetensors", test::safetensors(tensors));
  return open(folder.path());
}

void expect_bad(const TinyModel& model, const FileTensors& tensors,
                std::initializer_list<std::string> words) {
  const test::TempFolder folder;
  test::expect_bad_file([&] { open_model(folder, model.config(), tensors); }, words);
}

float bf16_at(const std::string& bytes, int64_t index) {
  const auto at = static_cast<size_t>(2 * index);
  const auto low = static_cast<unsigned char>(bytes[at]), high = static_cast<unsigned char>(bytes[at + 1]);
  return to_float(Bf16{static_cast<uint16_t>(low | high << 8)});
}

/// Every row of the matrix, read as floats, is what the file has from stored row `first` on.
void expect_rows(const Matrix& matrix, const std::string& bytes, int64_t row, int64_t stored_row) {
  tensor::RowReader reader(matrix);
  std::vector<float> values(static_cast<size_t>(matrix.cols));
  reader.floats(row, values.data());
  for (int64_t c = 0; c < matrix.cols; ++c) {
    ASSERT_EQ(values[static_cast<size_t>(c)], bf16_at(bytes, stored_row * matrix.cols + c)) << matrix.name;
  }
}

TEST(Checkpoint, a_hugging_face_folder_opens_and_binds) {
  const TinyModel model{.per_layer = true, .k_is_v = false};
  const test::TempFolder folder;
  const FileTensors tensors = model.tensors();
  const auto checkpoint = open_model(folder, model.config(), tensors);
  EXPECT_EQ(checkpoint->path, folder.path());
  EXPECT_EQ(checkpoint->format, "Hugging Face bf16");
  EXPECT_EQ(checkpoint->file_bytes, std::filesystem::file_size(folder / "model.safetensors"));
  EXPECT_TRUE(checkpoint->not_loaded.empty());
  EXPECT_EQ(checkpoint->generation.stop_ids, std::vector<int>{1});
  const model::Weights& weights = checkpoint->weights;
  ASSERT_EQ(weights.layers.size(), 4u);
  EXPECT_EQ(weights.embed.bits, 16);
  EXPECT_EQ(weights.embed.rows, 40);
  EXPECT_EQ(&weights.output_head(), &weights.embed);
  EXPECT_EQ(weights.per_layer_embed.cols, 4 * 128);
  EXPECT_EQ(weights.per_layer_norm.size(), 128u);
  const std::string at = model.prefix() + "layers.3.";
  const model::LayerWeights& layer = weights.layers[3];
  expect_rows(layer.q, tensors.at(at + "self_attn.q_proj.weight").bytes, 100, 100);
  expect_rows(layer.v, tensors.at(at + "self_attn.v_proj.weight").bytes, 5, 5);
  expect_rows(layer.down, tensors.at(at + "mlp.down_proj.weight").bytes, 127, 127);
  expect_rows(layer.per_layer.gate, tensors.at(at + "per_layer_input_gate.weight").bytes, 1, 1);
  EXPECT_EQ(layer.scalar, bf16_at(tensors.at(at + "layer_scalar").bytes, 0));
  EXPECT_EQ(layer.k_norm[9], bf16_at(tensors.at(at + "self_attn.k_norm.weight").bytes, 9));
  EXPECT_EQ(layer.post_mlp_norm[1], bf16_at(tensors.at(at + "post_feedforward_layernorm.weight").bytes, 1));
}

TEST(Checkpoint, every_known_prefix_is_found) {
  const TinyModel model;
  for (const std::string prefix : {"language_model.model.", "model.", ""}) {
    SCOPED_TRACE(prefix);
    FileTensors renamed;
    for (const auto& [name, tensor] : model.tensors())
      renamed[prefix + name.substr(model.prefix().size())] = tensor;
    const test::TempFolder folder;
    EXPECT_EQ(open_model(folder, model.config(), renamed)->weights.layers[0].q.name,
              prefix + "layers.0.self_attn.q_proj.weight");
  }
  FileTensors strange;
  for (const auto& [name, tensor] : model.tensors()) strange["transformer." + name] = tensor;
  expect_bad(model, strange, {"model.safetensors", "'embed_tokens.weight' is missing"});
}

TEST(Checkpoint, where_k_is_v_there_is_no_v_and_one_too_many_is_refused) {
  const TinyModel model{.k_is_v = true};
  const test::TempFolder folder;
  const auto checkpoint = open_model(folder, model.config(), model.tensors());
  EXPECT_TRUE(checkpoint->weights.layers[0].v.present());
  EXPECT_FALSE(checkpoint->weights.layers[1].v.present());
  EXPECT_TRUE(checkpoint->weights.layers[1].k.present());
  expect_bad(model, TinyModel{}.tensors(), {"layers.1.self_attn.v_proj.weight", "no place in the model"});
}

TEST(Checkpoint, shared_layers_need_no_k_and_v_and_may_have_them) {
  const TinyModel model{.per_layer = true, .shared = true};
  FileTensors tensors = model.tensors();
  {
    const test::TempFolder folder;
    const auto checkpoint = open_model(folder, model.config(), tensors);
    EXPECT_TRUE(checkpoint->not_loaded.empty());
    EXPECT_FALSE(checkpoint->weights.layers[2].k.present());
    EXPECT_TRUE(checkpoint->weights.layers[2].k_norm.empty());
    EXPECT_EQ(checkpoint->weights.layers[2].gate.rows, 256);
  }
  const std::string at = model.prefix() + "layers.2.self_attn.";
  tensors[at + "k_proj.weight"] = {"U8", {3}, "abc"};  // whatever it is, nobody looks
  tensors[at + "v_proj.weight"] = {"U8", {3}, "abc"};
  tensors[at + "k_norm.weight"] = {"U8", {3}, "abc"};
  const test::TempFolder folder;
  const auto checkpoint = open_model(folder, model.config(), tensors);
  ASSERT_EQ(checkpoint->not_loaded.size(), 1u);
  EXPECT_EQ(checkpoint->not_loaded[0].tensors, 3);
  EXPECT_EQ(checkpoint->not_loaded[0].bytes, 9u);
  EXPECT_FALSE(checkpoint->weights.layers[2].v.present());
}

TEST(Checkpoint, hugging_face_experts_are_split_into_gate_and_up_rows) {
  const TinyModel model{.experts = true};
  const test::TempFolder folder;
  const FileTensors tensors = model.tensors();
  const auto checkpoint = open_model(folder, model.config(), tensors);
  const model::MoeWeights& moe = checkpoint->weights.layers[2].moe;
  const std::string& bytes = tensors.at(model.prefix() + "layers.2.experts.gate_up_proj").bytes;
  for (const int64_t expert : {0, 1, 3}) {
    expect_rows(moe.gate, bytes, expert * 128 + 17, expert * 256 + 17);
    expect_rows(moe.up, bytes, expert * 128 + 17, expert * 256 + 128 + 17);
  }
  EXPECT_EQ(moe.gate.rows, 4 * 128);
  EXPECT_EQ(moe.down.rows, 4 * 128);
  expect_rows(moe.down, tensors.at(model.prefix() + "layers.2.experts.down_proj").bytes, 300, 300);
  EXPECT_EQ(moe.router_scale.size(), 128u);
  EXPECT_EQ(moe.per_expert_scale.size(), 4u);
}

TEST(Checkpoint, towers_and_a_spare_head_are_listed_as_not_loaded) {
  const TinyModel model;
  FileTensors tensors = model.tensors();
  tensors["model.vision_tower.patch.weight"] = {"BF16", {2}, "1234"};
  tensors["model.vision_tower.other"] = {"BF16", {1}, "12"};
  tensors["model.embed_audio.embedding_projection.weight"] = {"BF16", {1}, "12"};
  tensors["lm_head.weight"] = {"BF16", {1}, "12"};
  tensors["extra.thing"] = {"I64", {}, "12345678"};
  const test::TempFolder folder;
  const auto checkpoint = open_model(folder, model.config(), tensors);
  std::map<std::string, int> groups;
  for (const NotLoaded& group : checkpoint->not_loaded) {
    groups[group.group] = group.tensors;
    EXPECT_FALSE(group.reason.empty());
  }
  EXPECT_EQ(groups, (std::map<std::string, int>{
                        {"embed_audio", 1}, {"lm_head", 1}, {"other tensors", 1}, {"vision_tower", 2}}));
}

TEST(Checkpoint, an_untied_head_is_bound_or_missed) {
  const TinyModel model;
  json config = json::parse(model.config());
  config["tie_word_embeddings"] = false;
  FileTensors tensors = model.tensors();
  const test::TempFolder folder;
  test::expect_bad_file([&] { open_model(folder, config.dump(), tensors); }, {"'lm_head.weight'", "missing"});
  tensors["lm_head.weight"] = tensors.at(model.prefix() + "embed_tokens.weight");
  const auto checkpoint = open_model(folder, config.dump(), tensors);
  EXPECT_TRUE(checkpoint->weights.head.present());
  EXPECT_EQ(checkpoint->weights.output_head().name, "lm_head.weight");
}

TEST(Checkpoint, missing_misshapen_and_unknown_tensors_are_named_with_their_shapes) {
  const TinyModel model{.experts = true};
  const FileTensors good = model.tensors();
  const auto with = [&](const std::string& name, std::vector<int64_t> shape, const char* dtype = "BF16") {
    FileTensors tensors = good;
    test::FileTensor& tensor = tensors.at(model.prefix() + name);
    tensor.shape = std::move(shape);
    tensor.dtype = dtype;
    return tensors;
  };
  for (const auto& [name, tensor] : good) {
    FileTensors tensors = good;
    tensors.erase(name);
    expect_bad(model, tensors, {"model.safetensors", "missing"});
  }
  expect_bad(model, with("layers.0.self_attn.q_proj.weight", {64, 256}),
             {"q_proj", "[64, 256]", "[128, 128]"});
  expect_bad(model, with("layers.0.self_attn.q_proj.weight", {1, 128, 128}), {"[1, 128, 128]", "[128, 128]"});
  expect_bad(model, with("layers.0.self_attn.q_proj.weight", {128 * 128}), {"[16384]", "[128, 128]"});
  expect_bad(model, with("layers.1.experts.down_proj", {4 * 128, 128}),
             {"down_proj", "[512, 128]", "[4, 128, 128]"});
  expect_bad(model, with("norm.weight", {1, 128}), {"norm.weight", "[1, 128]", "[128]"});
  expect_bad(model, with("norm.weight", {128}, "I16"), {"norm.weight", "I16", "BF16"});
  expect_bad(model, with("layers.0.mlp.up_proj.weight", {128, 64}, "U32"), {"up_proj", "scales are missing"});
  FileTensors extra = good;
  extra[model.prefix() + "layers.4.layer_scalar"] = {"BF16", {1}, "12"};
  expect_bad(model, extra, {"layers.4.layer_scalar", "[1]", "no place"});
  extra.clear();
  extra.insert(good.begin(), good.end());
  extra[model.prefix() + "layers.0.layer_scalar"] = {"BF16", {}, "12"};
  const test::TempFolder folder;
  EXPECT_NO_THROW(open_model(folder, model.config(), extra));
}

TEST(Checkpoint, half_and_single_floats_are_read_as_they_are) {
  const TinyModel model;
  FileTensors tensors = model.tensors();
  test::FileTensor& up = tensors.at(model.prefix() + "layers.0.mlp.up_proj.weight");
  up.dtype = "F16";
  up.bytes.assign(up.bytes.size(), '\0');
  up.bytes[3] = 0x3c;  // 1.0 in the second column
  test::FileTensor& down = tensors.at(model.prefix() + "layers.0.mlp.down_proj.weight");
  down.dtype = "F32";
  down.bytes.assign(down.bytes.size() * 2, '\0');
  down.bytes[4 * 128 + 3] = 0x40;  // 2.0 in the second row
  const test::TempFolder folder;
  const auto checkpoint = open_model(folder, model.config(), tensors);
  const model::LayerWeights& layer = checkpoint->weights.layers[0];
  EXPECT_EQ(layer.down.bits, 32);
  std::vector<float> row(128);
  tensor::RowReader(layer.up).floats(0, row.data());
  EXPECT_EQ(row[1], 1.0f);
  tensor::RowReader(layer.down).floats(1, row.data());
  EXPECT_EQ(row[0], 2.0f);
  EXPECT_EQ(checkpoint->format, "Hugging Face bf16 and f32 and f16");
}

void expect_affine(const Matrix& matrix, const std::string& module, int bits, int group) {
  ASSERT_EQ(matrix.encoding, Encoding::kAffine);
  EXPECT_EQ(matrix.bits, bits);
  EXPECT_EQ(matrix.group, group);
  tensor::RowReader reader(matrix);
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    reader.floats(r, row.data());
    for (int64_t c = 0; c < matrix.cols; ++c) {
      const int64_t index = r * matrix.cols + c;
      const float expected =
          static_cast<float>(AffineValue::code(module, bits, index)) * AffineValue::scale(index / group) +
          AffineValue::bias(index / group);
      ASSERT_EQ(row[static_cast<size_t>(c)], expected) << module << " row " << r << " column " << c;
    }
  }
}

TEST(Mlx, every_width_and_group_is_told_by_the_shapes_and_dequantises_right) {
  const TinyModel model{.experts = true, .mlx = true};
  for (const int bits : {3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      FileTensors tensors = model.tensors();
      const std::string mlp = model.prefix() + "layers.0.mlp.up_proj";
      const std::string experts = model.prefix() + "layers.0.experts.switch_glu.down_proj";
      test::quantise(tensors, mlp, bits, group);
      test::quantise(tensors, experts, bits, group);
      const test::TempFolder folder;
      const auto checkpoint = open_model(folder, model.config(), tensors);
      expect_affine(checkpoint->weights.layers[0].up, mlp, bits, group);
      expect_affine(checkpoint->weights.layers[0].moe.down, experts, bits, group);
      EXPECT_EQ(checkpoint->weights.layers[0].gate.encoding, Encoding::kFloat);
      EXPECT_EQ(checkpoint->format, fmt::format("MLX affine {}-bit, group {}", bits, group));
    }
  }
}

TEST(Mlx, shapes_win_over_a_config_that_says_otherwise) {
  const TinyModel model{.mlx = true};
  FileTensors tensors = model.tensors();
  const std::string gate = model.prefix() + "layers.0.mlp.gate_proj",
                    up = model.prefix() + "layers.0.mlp.up_proj";
  test::quantise(tensors, gate, 8, 32);
  test::quantise(tensors, up, 4, 64);
  json config = json::parse(model.config());
  config["quantization"] = {
      {"bits", 4}, {"group_size", 64}, {up, {{"bits", 8}, {"group_size", 32}}}, {gate, false}};
  const test::TempFolder folder;
  const auto checkpoint = open_model(folder, config.dump(), tensors);
  expect_affine(checkpoint->weights.layers[0].gate, gate, 8, 32);
  expect_affine(checkpoint->weights.layers[0].up, up, 4, 64);
  EXPECT_EQ(checkpoint->format, "MLX affine 4-bit and 8-bit, group 64 and 32");
}

TEST(Mlx, packings_that_cannot_be_read_are_named) {
  const TinyModel model{.mlx = true};
  const std::string module = model.prefix() + "layers.0.mlp.up_proj";
  FileTensors good = model.tensors();
  test::quantise(good, module, 4, 64);
  const auto damaged = [&](const std::string& part, std::vector<int64_t> shape, size_t bytes,
                           const char* dtype) {
    FileTensors tensors = good;
    tensors[module + part] = {dtype, std::move(shape), std::string(bytes, '\0')};
    return tensors;
  };
  expect_bad(model, damaged(".weight", {128, 8}, 4096, "U32"), {"up_proj.weight", "128 values into 8 words"});
  expect_bad(model, damaged(".weight", {128, 17}, 128 * 17 * 4, "U32"), {"up_proj.weight", "17 words"});
  expect_bad(model, damaged(".weight", {64, 16}, 4096, "U32"), {"[64, 16]", "[128, 16]"});
  expect_bad(model, damaged(".weight", {128, 16}, 4096, "BF16"), {"up_proj.weight", "U32"});
  expect_bad(model, damaged(".scales", {128, 3}, 768, "BF16"), {"[128, 2]", "[128, 3]"});
  expect_bad(model, damaged(".scales", {128, 2}, 256, "U8"), {"up_proj.scales", "U8"});
  expect_bad(model, damaged(".scales", {}, 2, "BF16"), {"up_proj.scales", "[]"});
  FileTensors coarse = damaged(".scales", {128, 8}, 2048, "BF16");
  coarse[module + ".biases"] = coarse[module + ".scales"];
  expect_bad(model, coarse, {"up_proj.scales", "8 scales for 128 values"});
  FileTensors without_biases = good;
  without_biases.erase(module + ".biases");
  expect_bad(model, without_biases, {"up_proj", "without biases", "affine"});
  FileTensors without_scales = good;
  without_scales.erase(module + ".scales");
  expect_bad(model, without_scales, {"up_proj.scales", "missing"});
  json config = json::parse(model.config());
  config["quantization"] = {{"bits", 4}, {"group_size", 64}, {module, {{"mode", "nvfp4"}}}};
  const test::TempFolder folder;
  test::expect_bad_file([&] { open_model(folder, config.dump(), good); }, {"up_proj", "'nvfp4'", "affine"});
}

}  // namespace
}  // namespace slip::checkpoint
