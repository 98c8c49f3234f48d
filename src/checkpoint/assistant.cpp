#include "checkpoint/assistant.h"

#include <optional>
#include <string_view>

#include "base/error.h"
#include "checkpoint/assistant_config.h"
#include "checkpoint/bind.h"
#include "checkpoint/folder.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"
#include "checkpoint/tensor_binder.h"

namespace slip::checkpoint {

namespace {

std::optional<Leftover> known_leftover(std::string_view name, const std::string& where) {
  for (const char* part : {".self_attn.k_proj.", ".self_attn.v_proj.", ".self_attn.k_norm."}) {
    if (name.find(part) == std::string_view::npos) continue;
    fail_file(
        "{}: tensor {} makes keys or values, but an assistant has none of its own: it reads its model's",
        where, in_quotes(name));
  }
  if (name.starts_with("lm_head.")) return Leftover{"lm_head", "the embedding is the output head"};
  if (name.starts_with("masked_embedding.")) {
    return Leftover{"masked_embedding", "the head is dense (use_ordered_embeddings is false)"};
  }
  if (name.find("rotary_emb.") != std::string_view::npos) {
    return Leftover{"rotary_emb", "computed from config.json"};
  }
  return std::nullopt;
}

}  // namespace

model::AssistantWeights bind_assistant(TensorBinder& binder, const model::AssistantConfig& config) {
  const model::Config& text = config.text;
  model::AssistantWeights weights;
  weights.text.embed = binder.matrix("model.embed_tokens", {text.vocab, text.hidden});
  weights.text.final_norm = binder.vector("model.norm.weight", text.hidden);
  for (int layer = 0; layer < text.layer_count(); ++layer) {
    weights.text.layers.push_back(
        bind_layer(binder, text, layer, "model.layers." + std::to_string(layer) + "."));
  }
  weights.pre_projection =
      binder.matrix("pre_projection", {text.hidden, int64_t{2} * config.backbone_hidden});
  weights.post_projection = binder.matrix("post_projection", {config.backbone_hidden, text.hidden});
  if (config.centroids > 0) {
    weights.centroids = binder.matrix("masked_embedding.centroids", {config.centroids, text.hidden});
    weights.ordering = binder.permutation("masked_embedding.token_ordering", text.vocab);
  }
  return weights;
}

std::unique_ptr<AssistantCheckpoint> open_assistant(const std::string& folder, const model::Config& target) {
  const std::string config_path = find_config(folder);
  const ParsedAssistant parsed =
      parse_assistant_config(read_text_file(config_path, kLargestConfig), config_path);
  auto checkpoint = std::make_unique<AssistantCheckpoint>();
  checkpoint->config = fit_assistant(parsed.config, target, config_path);

  FolderTensors mapped = map_tensors(folder);
  TensorBinder binder(mapped.tensors, parsed.quantization, mapped.where);
  checkpoint->weights = bind_assistant(binder, checkpoint->config);
  checkpoint->not_loaded =
      binder.leftovers([&](std::string_view name) { return known_leftover(name, mapped.where); });
  checkpoint->format = (binder.any_affine() ? "MLX " : "Hugging Face ") + binder.encoding_text();
  mapped.move_into(*checkpoint, folder);
  return checkpoint;
}

}  // namespace slip::checkpoint
