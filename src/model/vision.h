// Vision: from the patches of one image to soft rows, embeddings that stand in a prompt in the place of
// tokens. Two networks do it:
//
//   tower     E2B, E4B (clipped linears), 26B-A4B, 31B (standardised): a bidirectional transformer over
//             patches of 16 x 16 pixels, then the mean of every 3 x 3 of them.
//   unified   12B: no encoder. A tile of 48 x 48 pixels goes through one product between layer norms.
//
// Both end in soft = projection * rms(pooled), without a weight, [text hidden]; soft rows enter the decoder
// unscaled. An image is computed alone and without padding, so its soft rows depend on it alone.
//
// The pass is a list of phases as in model/program.h: the reference, the CPU and the GPU walk the same list,
// and each field can be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/weights.h"

namespace slip::model {

enum class VisionKind { kTower, kUnified };

struct VisionConfig {
  VisionKind kind = VisionKind::kTower;
  int hidden = 0;       // of the tower, or of the unified embedder
  int text_hidden = 0;  // of a soft row
  int patch_side = 16;  // pixels
  int pool_side = 3;    // patches that become one soft row, per axis
  int positions = 0;    // rows of the position table per axis: columns and rows of a grid stay below it
  float norm_epsilon = 1e-6f;
  float layer_norm_epsilon = 1e-5f;  // unified

  // Tower only.
  int layers = 0;
  int heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  double rope_theta = 100;
  bool standardise = false;  // (pooled - std_bias) * std_scale

  int q_size() const { return heads * head_dim; }
  /// Patches of a soft row: 9, or 1 where a patch is a whole tile.
  int patches_per_soft_row() const { return kind == VisionKind::kTower ? pool_side * pool_side : 1; }
  /// Values of a patch: rows of pixels from the top, pixels from the left, red green blue, 0 to 1.
  int patch_values() const {
    const int side = kind == VisionKind::kTower ? patch_side : patch_side * pool_side;
    return side * side * 3;
  }
  /// Rotary frequency of pair i of half a head, in radians per column or row.
  double rope_frequency(int i) const;
};

/// A product whose inputs and outputs are clamped: the small tower was trained with these bounds.
struct ClippedMatrix {
  Matrix matrix;
  float input_min = -std::numeric_limits<float>::infinity();
  float input_max = std::numeric_limits<float>::infinity();
  float output_min = -std::numeric_limits<float>::infinity();
  float output_max = std::numeric_limits<float>::infinity();
};

// Shapes: d hidden, A heads * head dim, hd head dim, I intermediate, P positions, v patch values, h text
// hidden.
struct VisionLayerWeights {
  Vector input_norm, post_attention_norm;  // [d]
  Vector pre_mlp_norm, post_mlp_norm;      // [d]
  ClippedMatrix q, k, v;                   // [A, d]
  ClippedMatrix o;                         // [d, A]
  Vector q_norm, k_norm;                   // [hd]; v is normalised without a weight
  ClippedMatrix gate, up;                  // [I, d]
  ClippedMatrix down;                      // [d, I]
};

struct LayerNormWeights {
  Vector weight, bias;
};

struct VisionWeights {
  Matrix patch;      // [d, v]
  Matrix positions;  // [2 P, d], gathered by row: see position_row()
  std::vector<VisionLayerWeights> layers;
  Vector std_bias, std_scale;  // [d], where standardised
  // Unified: the norm of the tile [v], the bias of `patch` [d], and norms before and after the positions [d].
  LayerNormWeights tile_norm, patch_norm, position_norm;
  Vector patch_bias;
  Matrix projection;  // [h, d]
};

/// The row of the position table for a column (axis 0) or row (axis 1) of the grid. The tower's table is
/// stored axis by axis, the unified one position by position.
inline int64_t position_row(const VisionConfig& config, int axis, int position) {
  return config.kind == VisionKind::kTower ? int64_t{axis} * config.positions + position
                                           : int64_t{position} * 2 + axis;
}

enum class VisionPhaseKind {
  kPatches,       // tower: stream = patch (2 v - 1) + both positions; unified: pooled = the whole embedder
  kQkv,           // norm, q/k/v products, head norms, rotary embedding in two halves of the head
  kAttend,        // softmax(q k) v over all patches of the image, scale 1
  kAttentionOut,  // stream += norm(o(attended))
  kGateUp,        // activated = gelu(gate(norm(stream))) * up(norm(stream))
  kDown,          // stream += norm(down(activated))
  kPool,          // pooled = mean of 3 x 3 patches * sqrt(d), standardised; rows of the grid of soft rows
  kProject,       // soft = projection(rms(pooled))
};

/// What passes from phase to phase: one row of floats per patch, or per soft row.
enum class VisionField {
  kStream,     // [patches, d]
  kQuery,      // [patches, A] normed and rotated
  kAttended,   // [patches, A]
  kActivated,  // [patches, I]
  kPooled,     // [soft rows, d]
  kSoft,       // [soft rows, h]
};

struct VisionPhase {
  VisionPhaseKind kind;
  int layer = -1;  // -1 outside the layers
  VisionField output;
  // Multiplications and additions of one row of its products, attention's own aside.
  double row_flops = 0;
};

struct VisionProgram {
  VisionConfig config;
  const VisionWeights* weights = nullptr;
  std::vector<VisionPhase> phases;

  /// Of all products for an image of so many patches; and of its attention.
  double product_flops(int patches) const;
  double attention_flops(int patches) const;
};

/// `weights` must outlive the program.
VisionProgram build_vision_program(const VisionConfig& config, const VisionWeights& weights);

const char* name_of(VisionPhaseKind kind);

}  // namespace slip::model
