// Assistant: Gemma 4's own drafter (MTP), four Gemma layers that own no KV. A step guesses the token after
// `token`:
//
//   x = pre_projection * concat(target embedding of token, scaled; hidden)
//   x = the layers: queries of x, keys and values straight from the target's cache
//   y = norm(x; final_norm);  logits = head(y), no softcap;  next hidden = post_projection * y
//
// The first `hidden` of a round is the target's after its final norm, at the position whose logits gave
// `token`. The rotary position is the same for every step of a round, since guesses add no keys.
//
// A dense head scores the whole vocabulary. A centroid head scores `centroids` first and then only the tokens
// of the best `kept_centroids` clusters: cluster c has the tokens ordering[c * size .. (c + 1) * size), size
// = vocab / centroids.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/program.h"
#include "model/weights.h"

namespace slip::model {

struct AssistantConfig {
  // Its own layers, hidden size and vocabulary. kv_source of a layer is the layer of the *target* it reads,
  // and kv_heads, head_dim, window, rope are the target's there: fit_assistant() has checked that. k_is_v is
  // that of the source. borrows_kv is set.
  Config text;
  int backbone_hidden = 0;  // hidden size of the target
  int centroids = 0;        // 0 = dense head
  int kept_centroids = 0;
};

struct AssistantWeights {
  // layers (no k, v, k_norm), final_norm, and embed [V, h]: the tied head. Never gathered: tokens are
  // embedded by the target.
  Weights text;
  Matrix pre_projection;          // [h, 2 * backbone]
  Matrix post_projection;         // [backbone, h]
  Matrix centroids;               // [C, h]; absent with a dense head
  std::vector<int32_t> ordering;  // [V]; empty with a dense head
};

/// `weights` must outlive the program.
Program assistant_program(const AssistantConfig& config, const AssistantWeights& weights);

}  // namespace slip::model
