// DFlash: z-lab's block drafter. Qwen3-like layers (pre-norm, SiLU, no norms after the branches) that borrow
// the target's embedding and head, and guess a whole block in one pass.
//
// Context: for every verified position, the outputs of the target layers `taps`, side by side, go through
//   c = norm(fc * taps; context_norm)
// and every layer stores k = rotate(norm(k_proj c; k_norm)), v = v_proj c in the drafter's own cache.
//
// Block: rows [anchor, mask, mask, ...] at positions N, N + 1, ... (N = positions in the context), embedded
// by the target, scaled; each layer appends the block's own keys and values after the context for the time of
// the pass. Rows of full layers see context and the whole block, rows of sliding layers the window up to
// themselves. logits = softcap(target head(norm(x; final_norm))); row j guesses its own position, row 0 (the
// anchor, known) is ignored. A block shorter than `block` rows is as good.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/program.h"
#include "model/weights.h"

namespace slip::model {

struct DflashConfig {
  // Layers that own their KV, activation silu, v_norm false, hidden and vocab those of the target,
  // logit_softcap its own (the target's where config.json does not say), embed_scale and placeholder_ids the
  // target's.
  Config text;
  int block = 0;          // rows of a block, the anchor included
  int mask_id = 0;        // token of the rows to be guessed
  std::vector<int> taps;  // layers of the target whose output is read, in the order fc expects
};

struct DflashWeights {
  // layers and final_norm; no embed, no head. input_norm, q, k, v, o, q_norm, k_norm, gate, up, down as ever;
  // pre_mlp_norm is the file's post_attention_layernorm; post_attention_norm and post_mlp_norm are empty,
  // which means none; scalar is 1. q_norm holds weight / sqrt(head_dim): attention here has no other scale.
  Weights text;
  Matrix fc;            // [h, taps * h]
  Vector context_norm;  // [h] hidden_norm
};

/// The two passes; `weights` and `head`, the target's, must outlive them.
Program dflash_context_program(const DflashConfig& config, const DflashWeights& weights);
Program dflash_block_program(const DflashConfig& config, const DflashWeights& weights, const Matrix& head);

}  // namespace slip::model
