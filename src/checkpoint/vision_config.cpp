#include "checkpoint/vision_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"

namespace slip::checkpoint {

namespace {

using model::VisionConfig;
using model::VisionKind;

constexpr int64_t kMostPatchSide = 64;
constexpr int64_t kMostPoolSide = 8;
constexpr int64_t kMostGrid = 1 << 16;
constexpr int64_t kDefaultTowerPositions = 10240;
constexpr int64_t kDefaultUnifiedPositions = 1120;

int size_of(const JsonObject& vision, const char* key, int64_t most) {
  return static_cast<int>(vision.need_integer(key, 1, most));
}

int size_of(const JsonObject& vision, const char* key, int64_t most, int64_t otherwise) {
  return static_cast<int>(vision.integer(key, 1, most).value_or(otherwise));
}

void parse_tower(const JsonObject& vision, VisionConfig& config) {
  const auto activation = vision.text("hidden_activation");
  if (activation && *activation != "gelu_pytorch_tanh") {
    fail_file("{}: {} is {}, but slipstream computes gelu_pytorch_tanh only", vision.file(),
              vision.path_of("hidden_activation"), in_quotes(*activation));
  }
  if (vision.boolean("attention_bias").value_or(false)) {
    fail_file("{}: {} is true, but Gemma 4's tower has no attention biases", vision.file(),
              vision.path_of("attention_bias"));
  }
  config.hidden = size_of(vision, "hidden_size", kMostHidden);
  config.layers = size_of(vision, "num_hidden_layers", kMostLayers);
  config.heads = size_of(vision, "num_attention_heads", kMostHeads);
  config.intermediate = size_of(vision, "intermediate_size", kMostIntermediate);
  config.head_dim = size_of(vision, "head_dim", kMostHeadDim, config.hidden / config.heads);
  config.positions = size_of(vision, "position_embedding_size", kMostGrid, kDefaultTowerPositions);
  config.standardise = vision.boolean("standardize").value_or(false);
  if (const auto rope = vision.object("rope_parameters")) {
    config.rope_theta = rope->number("rope_theta", 1, 1e12).value_or(config.rope_theta);
  }
  if (config.head_dim == 0 || config.head_dim % 4 != 0) {
    fail_file("{}: {} is {}, but columns and rows each turn half of a head in pairs: it must divide by 4",
              vision.file(), vision.path_of("head_dim"), config.head_dim);
  }
  const int kv_heads = size_of(vision, "num_key_value_heads", kMostHeads, config.heads);
  if (kv_heads != config.heads) {
    fail_file("{}: {} is {}, but the tower has as many as attention heads ({})", vision.file(),
              vision.path_of("num_key_value_heads"), kv_heads, config.heads);
  }
}

void parse_unified(const JsonObject& vision, VisionConfig& config) {
  config.hidden = size_of(vision, "mm_embed_dim", kMostHidden);
  config.positions = size_of(vision, "mm_posemb_size", kMostGrid, kDefaultUnifiedPositions);
  const int width = size_of(vision, "output_proj_dims", kMostHidden, config.hidden);
  if (width != config.hidden) {
    fail_file("{}: {} is {}, but mm_embed_dim is {}; slipstream computes models where they agree",
              vision.file(), vision.path_of("output_proj_dims"), width, config.hidden);
  }
}

/// Hugging Face assumes the ids of Google's tokenizer where the file is silent.
int token_of(const JsonObject& top, const char* key, int assumed, int vocab) {
  const auto ids = top.ids(key, vocab);
  if (ids && ids->size() == 1) return ids->front();
  if (ids) fail_file("{}: {} must be one token id", top.file(), key);
  if (assumed < vocab) return assumed;
  fail_file("{}: has a vision_config, but no {}, and the vocabulary of {} has no {}", top.file(), key, vocab,
            assumed);
}

MediaTokens parse_tokens(const JsonObject& top, int vocab) {
  return {.image = token_of(top, "image_token_id", 258880, vocab),
          .video = token_of(top, "video_token_id", 258884, vocab),
          .begin_image = token_of(top, "boi_token_id", 255999, vocab),
          .end_image = token_of(top, "eoi_token_id", 258882, vocab)};
}

}  // namespace

std::optional<ParsedVision> parse_vision_config(std::string_view text, const std::string& file,
                                                const model::Config& decoder) {
  const nlohmann::json document = parse_json(text, file);
  const JsonObject top(document, file);
  const auto vision = top.object("vision_config");
  if (!vision) return std::nullopt;
  ParsedVision parsed;
  VisionConfig& config = parsed.config;
  config.text_hidden = decoder.hidden;
  const auto type = top.text("model_type");
  config.kind =
      type && type->find("unified") != std::string::npos ? VisionKind::kUnified : VisionKind::kTower;
  config.patch_side = size_of(*vision, "patch_size", kMostPatchSide, config.patch_side);
  config.pool_side = size_of(*vision, "pooling_kernel_size", kMostPoolSide, config.pool_side);
  config.norm_epsilon = static_cast<float>(vision->number("rms_norm_eps", 1e-12, 1).value_or(1e-6));
  if (config.kind == VisionKind::kTower) {
    parse_tower(*vision, config);
    parsed.clipped = vision->boolean("use_clipped_linears").value_or(false);
  } else {
    parse_unified(*vision, config);
  }
  parsed.tokens = parse_tokens(top, decoder.vocab);
  const bool at_top = top.has("quantization") || top.has("quantization_config");
  parsed.quantization = parse_quantization(at_top ? top : top.object("text_config").value_or(top));
  return parsed;
}

}  // namespace slip::checkpoint
