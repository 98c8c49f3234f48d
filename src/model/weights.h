// Weights: every tensor of the text decoder, bound by name to a field. Matrices are descriptions of where the
// bytes are (see tensor/matrix.h) and own nothing; the small vectors are floats here and now. Shapes: h
// hidden, L layers, nH heads, nKV kv heads, hd head dim, I intermediate, P per-layer dim, E experts, X expert
// intermediate, V vocabulary.
#pragma once

#include <vector>

#include "tensor/matrix.h"

namespace slip::model {

using tensor::Matrix;
using Vector = std::vector<float>;

struct MoeWeights {
  Matrix router;            // [E, h]
  Vector router_scale;      // [h]
  Vector per_expert_scale;  // [E]
  Matrix gate, up;          // [E * X, h]: expert e owns rows e*X .. e*X+X
  Matrix down;              // [E * h, X]
  Vector pre_norm;          // [h] pre_feedforward_layernorm_2
  Vector post_norm_dense;   // [h] post_feedforward_layernorm_1
  Vector post_norm;         // [h] post_feedforward_layernorm_2
};

struct PerLayerWeights {
  Matrix gate;        // [P, h] per_layer_input_gate
  Matrix projection;  // [h, P] per_layer_projection
  Vector post_norm;   // [h]    post_per_layer_input_norm
};

struct LayerWeights {
  Vector input_norm, post_attention_norm;  // [h]
  Vector pre_mlp_norm, post_mlp_norm;      // [h]
  Matrix q;                                // [nH*hd, h]
  Matrix k, v;                // [nKV*hd, h]; absent on layers that share KV, v absent where K = V
  Matrix o;                   // [h, nH*hd]
  Vector q_norm, k_norm;      // [hd]; k_norm absent on layers that share KV
  Matrix gate, up;            // [I, h]
  Matrix down;                // [h, I]
  float scalar = 1;           // layer_scalar, multiplies the residual stream at the layer's end
  MoeWeights moe;             // empty on dense models
  PerLayerWeights per_layer;  // empty without per-layer embeddings
};

struct Weights {
  Matrix embed;                 // [V, h], also the head when `head` is absent
  Matrix head;                  // [V, h], only in untied checkpoints
  Vector final_norm;            // [h]
  Matrix per_layer_embed;       // [V, L*P]: gathered by row, never multiplied
  Matrix per_layer_projection;  // [L*P, h]
  Vector per_layer_norm;        // [P]
  std::vector<LayerWeights> layers;

  const Matrix& output_head() const { return head.present() ? head : embed; }
};

}  // namespace slip::model
