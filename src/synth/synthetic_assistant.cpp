// The assistant of a synthetic target. With an acceptance, its input projection turns the code of the token
// it is given by one step (the half that reads the target's hidden state is 0), its layers run without having
// a say, and its head holds the codes, those of the share it shall miss in each other's places.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/noise.h"
#include "checkpoint/assistant.h"
#include "checkpoint/tensor_binder.h"
#include "synth/shapes.h"
#include "synth/synthetic.h"
#include "synth/synthetic_layout.h"

namespace slip::synth {

namespace {

using model::AssistantConfig;
using model::LayerConfig;
using Ids = std::vector<int32_t>;

constexpr double kNormSpread = 0.2;
constexpr double kLogitDeviation = 2.5;  // of random weights
constexpr double kGuessLogit = 20;       // of the guess; the others lie around 0
constexpr uint64_t kOrderStream = 0x6f726465;

SyntheticFormat assistant_format(const SynthOptions& options) {
  if (options.assistant_bits != 4 && options.assistant_bits != 8 && options.assistant_bits != 16) {
    fail_usage("an assistant has 4, 8 or 16 bits, not {}", options.assistant_bits);
  }
  check_group(options.group);
  // At 16 bits it stays in Hugging Face's layout beside a target of any width, as published ones are.
  const bool mlx = options.layout == SynthLayout::kMlx || options.assistant_bits != 16;
  return {.mlx = mlx, .bits = options.assistant_bits, .group = options.group};
}

void shuffle(uint64_t key, std::span<int32_t> ids) {
  for (size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[keyed_bits(key, i) % i]);
}

/// Clusters of neighbouring tokens in shuffled order, each shuffled: a reader that skips the table fails.
Ids cluster_ordering(const AssistantConfig& config, uint64_t seed) {
  const uint64_t key = noise_key(seed, kOrderStream);
  const auto count = static_cast<size_t>(config.centroids);
  const size_t size = static_cast<size_t>(config.text.vocab) / count;
  Ids blocks(count), ordering(count * size);
  std::iota(blocks.begin(), blocks.end(), 0);
  shuffle(key, blocks);
  for (size_t c = 0; c < count; ++c) {
    const std::span<int32_t> cluster = std::span(ordering).subspan(c * size, size);
    std::iota(cluster.begin(), cluster.end(), blocks[c] * static_cast<int32_t>(size));
    shuffle(mix64(key + c + 1), cluster);
  }
  return ordering;
}

/// The token in the middle of each cluster.
Ids cluster_middles(const AssistantConfig& config, const Ids& ordering) {
  const auto size = static_cast<size_t>(config.text.vocab / config.centroids);
  Ids middles;
  for (size_t at = 0; at < ordering.size(); at += size) {
    const auto first =
        static_cast<int32_t>(ordering[at] / static_cast<int32_t>(size) * static_cast<int>(size));
    middles.push_back(first + static_cast<int32_t>(size / 2));
  }
  return middles;
}

class AssistantLayout {
 public:
  AssistantLayout(const AssistantConfig& config, const SynthOptions& options, SharedCode code,
                  std::shared_ptr<const Ids> ordering)
      : config_(config),
        options_(options),
        code_(std::move(code)),
        ordering_(std::move(ordering)),
        specs_(assistant_format(options), "model.") {}

  std::vector<SyntheticTensor::Spec> build() {
    head();
    for (int i = 0; i < config_.text.layer_count(); ++i) layer(i);
    specs_.set_prefix("");
    projections();
    if (config_.centroids > 0) clusters();
    return specs_.take();
  }

 private:
  void head() {
    const int64_t vocab = config_.text.vocab, hidden = config_.text.hidden;
    if (code_ == nullptr) {
      specs_.linear("embed_tokens", vocab, hidden);
      specs_.vector("norm.weight", hidden, kLogitDeviation, kNormSpread);
      return;
    }
    specs_.patterned("embed_tokens", vocab, hidden, 1.0 / std::sqrt(hidden),
                     assistant_embedding(code_, misplaced_rows(*code_, *options_.acceptance, options_.seed)));
    specs_.vector("norm.weight", hidden, kGuessLogit / std::sqrt(code_->assistant_pairs()), 0);
  }

  void layer(int index) {
    const LayerConfig& at = config_.text.layers[static_cast<size_t>(index)];
    const std::string name = fmt::format("layers.{}.", index);
    const int64_t hidden = config_.text.hidden;
    specs_.norm(name + "input_layernorm", hidden);
    specs_.norm(name + "pre_feedforward_layernorm", hidden);
    for (const char* after : {"post_attention_layernorm.weight", "post_feedforward_layernorm.weight"}) {
      specs_.vector(name + after, hidden, code_ == nullptr ? 1 : kQuietNorm, kNormSpread);
    }
    specs_.vector(name + "layer_scalar", 1, code_ == nullptr ? 0.8 : 1, code_ == nullptr ? 0.25 : 0);
    // Scores of deviation 2, as in synthetic_layout.cpp.
    const double q_norm = std::sqrt(2.0 / std::sqrt(at.head_dim));
    specs_.linear(name + "self_attn.q_proj", at.q_size(), hidden);
    specs_.linear(name + "self_attn.o_proj", hidden, at.q_size());
    specs_.vector(name + "self_attn.q_norm.weight", at.head_dim, q_norm, kNormSpread);
    specs_.linear(name + "mlp.gate_proj", at.intermediate, hidden);
    specs_.linear(name + "mlp.up_proj", at.intermediate, hidden);
    specs_.linear(name + "mlp.down_proj", hidden, at.intermediate);
  }

  void projections() {
    const int64_t hidden = config_.text.hidden, backbone = config_.backbone_hidden;
    if (code_ == nullptr) {
      specs_.linear("pre_projection", hidden, 2 * backbone);
    } else {
      specs_.patterned("pre_projection", hidden, 2 * backbone, 1,
                       turned_pairs(code_, code_->assistant_pairs()));
    }
    specs_.linear("post_projection", backbone, hidden);
  }

  void clusters() {
    const int64_t hidden = config_.text.hidden;
    specs_.ids("masked_embedding.token_ordering", ordering_);
    if (code_ == nullptr) return specs_.linear("masked_embedding.centroids", config_.centroids, hidden);
    specs_.patterned("masked_embedding.centroids", config_.centroids, hidden, 1.0 / std::sqrt(hidden),
                     cluster_centres(code_, cluster_middles(config_, *ordering_)));
  }

  const AssistantConfig& config_;
  const SynthOptions& options_;
  SharedCode code_;
  std::shared_ptr<const Ids> ordering_;
  SpecBuilder specs_;
};

}  // namespace

std::unique_ptr<AssistantCheckpoint> synthesize_assistant(const SynthOptions& options) {
  auto made = std::make_unique<AssistantCheckpoint>();
  made->path = "synthetic " + options.shape + " assistant";
  made->config = assistant_shape_config(options.shape);
  SharedCode code;
  if (options.acceptance) {
    check_acceptance(*options.acceptance);
    code = std::make_shared<RotationCode>(shape_config(options.shape), made->config, options.seed,
                                          options.shape);
  }
  std::shared_ptr<const Ids> ordering;
  if (made->config.centroids > 0) {
    ordering = std::make_shared<const Ids>(cluster_ordering(made->config, options.seed));
  }
  for (const auto& spec : AssistantLayout(made->config, options, code, ordering).build()) {
    auto tensor = make_tensor(spec, options.seed);
    made->file_bytes += tensor->bytes();
    const bool is_new = made->tensors.add(std::move(tensor));
    SLIP_CHECK(is_new);
  }
  const SyntheticFormat format = assistant_format(options);
  checkpoint::Quantization quantization;
  quantization.present = format.bits != 16;
  quantization.defaults.bits = format.bits != 16 ? format.bits : 0;
  quantization.defaults.group = format.bits != 16 ? format.group : 0;
  checkpoint::TensorBinder binder(made->tensors, quantization, made->path);
  made->weights = checkpoint::bind_assistant(binder, made->config);
  made->format = (format.mlx ? "MLX " : "Hugging Face ") + binder.encoding_text();
  return made;
}

}  // namespace slip::synth
