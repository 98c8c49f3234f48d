#include "synth/writer.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/folder.h"
#include "synth/shapes.h"
#include "synth/synthetic.h"

namespace slip::synth {
namespace {

namespace fs = std::filesystem;
using model::Config;
using model::LayerConfig;

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "slip-writer-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const char* name) const { return path_ / name; }
  bool empty() const { return fs::is_empty(path_); }

 private:
  fs::path path_;
};

void expect_same(const Config& a, const Config& b, const std::string& what) {
  EXPECT_EQ(a.model_type, b.model_type) << what;
  EXPECT_EQ(a.vocab, b.vocab) << what;
  EXPECT_EQ(a.hidden, b.hidden) << what;
  EXPECT_EQ(a.window, b.window) << what;
  EXPECT_EQ(a.norm_epsilon, b.norm_epsilon) << what;
  EXPECT_EQ(a.logit_softcap, b.logit_softcap) << what;
  EXPECT_EQ(a.embed_scale, b.embed_scale) << what;
  EXPECT_EQ(a.max_positions, b.max_positions) << what;
  EXPECT_EQ(a.per_layer_dim, b.per_layer_dim) << what;
  EXPECT_EQ(a.per_layer_vocab, b.per_layer_vocab) << what;
  EXPECT_EQ(a.experts, b.experts) << what;
  EXPECT_EQ(a.experts_per_token, b.experts_per_token) << what;
  EXPECT_EQ(a.expert_intermediate, b.expert_intermediate) << what;
  EXPECT_EQ(a.pad_id, b.pad_id) << what;
  EXPECT_EQ(a.bos_id, b.bos_id) << what;
  EXPECT_EQ(a.eos_ids, b.eos_ids) << what;
  EXPECT_EQ(a.bidirectional_media, b.bidirectional_media) << what;
  ASSERT_EQ(a.layer_count(), b.layer_count()) << what;
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const LayerConfig &x = a.layers[i], &y = b.layers[i];
    const std::string where = what + " layer " + std::to_string(i);
    EXPECT_EQ(x.kind, y.kind) << where;
    EXPECT_EQ(x.heads, y.heads) << where;
    EXPECT_EQ(x.kv_heads, y.kv_heads) << where;
    EXPECT_EQ(x.head_dim, y.head_dim) << where;
    EXPECT_EQ(x.intermediate, y.intermediate) << where;
    EXPECT_EQ(x.k_is_v, y.k_is_v) << where;
    EXPECT_EQ(x.kv_source, y.kv_source) << where;
    EXPECT_EQ(x.rotated_pairs, y.rotated_pairs) << where;
    EXPECT_EQ(x.rope_theta, y.rope_theta) << where;
    EXPECT_EQ(x.rope_factor, y.rope_factor) << where;
  }
}

void expect_same(const checkpoint::TensorSet& a, const checkpoint::TensorSet& b) {
  ASSERT_EQ(a.size(), b.size());
  std::vector<std::byte> one, two;
  for (const auto& [name, tensor] : a) {
    const tensor::StoredTensor* other = b.find(name);
    ASSERT_NE(other, nullptr) << name;
    ASSERT_EQ(tensor->dtype(), other->dtype()) << name;
    ASSERT_EQ(tensor->shape(), other->shape()) << name;
    const size_t count = tensor->bytes();
    EXPECT_EQ(std::memcmp(tensor->read(0, count, one), other->read(0, count, two), count), 0) << name;
  }
}

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> shards;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  }
  return shards;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WriterConfig, both_spellings_of_every_shape_read_back_as_the_same_config) {
  for (const std::string& shape : shape_names()) {
    const auto made = synthesize({.shape = shape, .bits = 4});
    for (const ConfigSpelling spelling : {ConfigSpelling::kPerLayer, ConfigSpelling::kGlobal}) {
      const std::string text = config_text(*made, spelling);
      EXPECT_EQ(text.find("per_layer_config") != std::string::npos, spelling == ConfigSpelling::kPerLayer);
      EXPECT_EQ(text.find("global_head_dim") != std::string::npos, spelling == ConfigSpelling::kGlobal);
      const checkpoint::ParsedConfig parsed = checkpoint::parse_config(text, "config.json");
      expect_same(made->config, parsed.config, shape);
      EXPECT_EQ(parsed.quantization.defaults.bits, 4);
      EXPECT_EQ(parsed.quantization.defaults.group, 64);
      EXPECT_TRUE(parsed.tied_head);
    }
  }
}

TEST(WriterConfig, modules_that_differ_from_the_rest_are_named_in_the_quantization_table) {
  const auto made = synthesize({.shape = "tiny-moe", .bits = 4, .group = 32});
  const checkpoint::Quantization table =
      checkpoint::parse_config(config_text(*made, ConfigSpelling::kPerLayer), "config.json").quantization;
  EXPECT_EQ(table.modules.size(), 6u);
  EXPECT_EQ(table.of("language_model.model.layers.5.router.proj").bits, 8);
  EXPECT_EQ(table.of("language_model.model.layers.5.mlp.up_proj").bits, 4);
}

TEST(WriterConfig, a_model_with_full_layers_of_several_sizes_needs_the_per_layer_spelling) {
  const auto made = synthesize({.shape = "tiny-dense", .bits = 16});
  made->config.layers[5].head_dim = 128;
  EXPECT_THROW(config_text(*made, ConfigSpelling::kGlobal), Error);
  EXPECT_NE(config_text(*made, ConfigSpelling::kPerLayer).find("128"), std::string::npos);
}

TEST(Writer, a_written_folder_opens_as_the_same_model) {
  for (const std::string& shape : shape_names()) {
    if (!shape.starts_with("tiny-")) continue;
    for (const int bits : {4, 16}) {
      TempFolder temp;
      const auto made = synthesize({.shape = shape, .bits = bits});
      write_folder(*made, temp / "model");
      const auto opened = checkpoint::open(temp / "model");
      expect_same(made->config, opened->config, shape);
      expect_same(made->tensors, opened->tensors);
      EXPECT_EQ(made->format, opened->format);
      EXPECT_EQ(made->generation.stop_ids, opened->generation.stop_ids);
      EXPECT_EQ(made->generation.top_k, opened->generation.top_k);
      EXPECT_EQ(made->generation.top_p, opened->generation.top_p);
      EXPECT_EQ(made->generation.do_sample, opened->generation.do_sample);
      EXPECT_EQ(opened->weights.layers[1].down.bits, bits);
      EXPECT_EQ(opened->weights.layers[1].input_norm, made->weights.layers[1].input_norm);
      EXPECT_TRUE(opened->not_loaded.empty());
    }
  }
}

TEST(Writer, shards_keep_to_their_limit_and_open_as_the_same_model) {
  TempFolder temp;
  const auto made = synthesize({.shape = "tiny-e2b", .bits = 16});
  const size_t limit = 300 * 1000;
  size_t largest = 0;
  for (const auto& [name, tensor] : made->tensors) largest = std::max(largest, tensor->bytes());
  ASSERT_GT(largest, limit) << "one tensor must overflow a shard of its own for this test to mean something";
  write_folder(*made, temp / "model", {.shard_bytes = limit});
  const std::vector<fs::path> shards = shards_in(temp / "model");
  EXPECT_GT(shards.size(), 4u);
  int over = 0;
  for (const fs::path& shard : shards) over += fs::file_size(shard) > limit + 8192 ? 1 : 0;
  EXPECT_EQ(over, 1);
  EXPECT_TRUE(fs::exists(temp / "model" / "model.safetensors.index.json"));
  const auto opened = checkpoint::open(temp / "model");
  EXPECT_EQ(opened->files.size(), shards.size());
  expect_same(made->tensors, opened->tensors);
}

TEST(Writer, tensors_start_aligned_to_their_elements) {
  TempFolder temp;
  const auto made = synthesize({.shape = "tiny-dense", .bits = 4});
  write_folder(*made, temp / "model");
  const auto opened = checkpoint::open(temp / "model");
  std::vector<std::byte> scratch;
  for (const auto& [name, tensor] : opened->tensors) {
    const auto at = reinterpret_cast<uintptr_t>(tensor->read(0, tensor->bytes(), scratch));
    EXPECT_EQ(at % tensor::size_of(tensor->dtype()), 0u) << name;
  }
}

TEST(Writer, a_folder_in_use_is_refused_unless_told_and_then_only_the_checkpoint_in_it_is_replaced) {
  TempFolder temp;
  const fs::path folder = temp / "model";
  const auto old = synthesize({.shape = "tiny-e2b", .bits = 16});
  write_folder(*old, folder, {.shard_bytes = 300 * 1000});
  std::ofstream(folder / "notes.txt") << "{}";
  const auto made = synthesize({.shape = "tiny-moe", .bits = 8});
  EXPECT_THROW(write_folder(*made, folder), Error);
  expect_same(checkpoint::open(folder)->tensors, old->tensors);
  write_folder(*made, folder, {.overwrite = true});
  EXPECT_EQ(shards_in(folder).size(), 1u);
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  EXPECT_EQ(text_of(folder / "notes.txt"), "{}");
  expect_same(checkpoint::open(folder)->tensors, made->tensors);
  EXPECT_THROW(write_folder(*made, folder / "config.json"), Error);
  EXPECT_THROW(write_folder(*made, ""), Error);
}

TEST(Writer, the_remains_of_a_killed_run_do_not_stand_in_the_way) {
  TempFolder temp;
  fs::create_directories(temp / "model" / ".slipstream-partial");
  std::ofstream(temp / "model" / ".slipstream-partial" / "model.safetensors") << "half";
  const auto made = synthesize({.shape = "tiny-dense", .bits = 8});
  write_folder(*made, temp / "model");
  EXPECT_FALSE(fs::exists(temp / "model" / ".slipstream-partial"));
  expect_same(checkpoint::open(temp / "model")->tensors, made->tensors);
}

TEST(Writer, an_aborted_run_leaves_nothing_behind_not_even_the_folders_it_made) {
  TempFolder temp;
  const auto made = synthesize({.shape = "tiny-dense", .bits = 8});
  const WriteOptions options{.progress = [](size_t done, size_t total) {
    if (done > total / 2) fail(ErrorKind::kRuntime, "interrupted");
  }};
  EXPECT_THROW(write_folder(*made, temp / "a/b/model", options), Error);
  EXPECT_TRUE(temp.empty());
}

TEST(Writer, a_failing_disk_gives_an_error_and_leaves_nothing_behind) {
  TempFolder temp;
  const auto made = synthesize({.shape = "tiny-dense", .bits = 16});
  // A limit on file size fails in the middle of the tensors, as a full disk would.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 500 * 1000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_folder(*made, temp / "model");
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
  EXPECT_TRUE(temp.empty());
}

// A tensor that is larger than any disk, or that watches how it is read.
class HugeTensor final : public tensor::StoredTensor {
 public:
  explicit HugeTensor(std::vector<int64_t> shape)
      : StoredTensor("huge", tensor::DType::kU8, std::move(shape)) {}
  const std::byte* read(size_t, size_t count, std::vector<std::byte>& scratch) const override {
    widest = std::max(widest, count);
    scratch.resize(count);
    return scratch.data();
  }
  mutable size_t widest = 0;
};

TEST(Writer, a_disk_that_is_too_small_is_noticed_before_anything_is_written) {
  TempFolder temp;
  const auto made = synthesize({.shape = "tiny-dense", .bits = 16});
  made->tensors.add(std::make_unique<HugeTensor>(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 20}));
  try {
    write_folder(*made, temp / "model");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs 1152921504"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(temp.empty());
}

TEST(Writer, a_large_tensor_is_never_in_memory_whole) {
  TempFolder temp;
  const auto made = synthesize({.shape = "tiny-dense", .bits = 16});
  auto large = std::make_unique<HugeTensor>(std::vector<int64_t>{20 << 20});
  const HugeTensor& watched = *large;
  made->tensors.add(std::move(large));
  size_t last = 0, total = 0;
  write_folder(*made, temp / "model", {.progress = [&](size_t done, size_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  }});
  EXPECT_EQ(last, total);
  EXPECT_LE(watched.widest, size_t{4} << 20);
}

TEST(WriteAssistant, writes_the_tensors_and_the_config_of_the_published_ones) {
  for (const std::string& shape : shape_names()) {
    if (!shape.starts_with("tiny-")) continue;
    for (const int bits : {4, 16}) {
      TempFolder temp;
      const auto made = synthesize_assistant({.shape = shape, .acceptance = 0.5, .assistant_bits = bits});
      write_assistant(*made, temp / "model");
      expect_same(made->tensors, checkpoint::map_tensors(temp / "model").tensors);
      const auto config = nlohmann::json::parse(text_of(temp / "model" / "config.json"));
      const bool unified = shape == "tiny-unified";
      EXPECT_EQ(config["model_type"], unified ? "gemma4_unified_assistant" : "gemma4_assistant");
      EXPECT_EQ(config["architectures"][0],
                unified ? "Gemma4UnifiedAssistantForCausalLM" : "Gemma4AssistantForCausalLM");
      EXPECT_EQ(config["backbone_hidden_size"], made->config.backbone_hidden);
      EXPECT_EQ(config["use_ordered_embeddings"], shape == "tiny-e2b");
      EXPECT_EQ(config["num_centroids"], shape == "tiny-e2b" ? 32 : 2048);
      EXPECT_EQ(config["centroid_intermediate_top_k"], shape == "tiny-e2b" ? 4 : 32);
      const auto& text = config["text_config"];
      EXPECT_EQ(text["hidden_size"], 128);
      EXPECT_EQ(text["num_kv_shared_layers"], 4);
      EXPECT_EQ(text["layer_types"].size(), 4u);
      EXPECT_EQ(text["per_layer_config"]["3"]["head_dim"], 64);
      EXPECT_EQ(text["attention_k_eq_v"], shape != "tiny-e2b");
      EXPECT_TRUE(text["final_logit_softcapping"].is_null());
      EXPECT_EQ(config.contains("quantization"), bits == 4);
      if (bits == 4) {
        EXPECT_EQ(config["quantization"]["bits"], 4);
      }
    }
  }
}

TEST(WriteAssistant, a_folder_in_use_is_found_before_anything_is_written) {
  TempFolder temp;
  EXPECT_NO_THROW(check_folder(temp / "new", {}));
  std::ofstream(temp / "file") << "x";
  EXPECT_THROW(check_folder(temp / "file", {}), Error);
  fs::create_directory(temp / "full");
  std::ofstream(temp / "full" / "a") << "x";
  EXPECT_THROW(check_folder(temp / "full", {}), Error);
  EXPECT_NO_THROW(check_folder(temp / "full", {.overwrite = true}));
}

}  // namespace
}  // namespace slip::synth
