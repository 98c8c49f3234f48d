// Program: the forward pass of one model as an ordered list of phases. A phase is data: what is done, to
// which layer, what it reads and writes, and how many weight bytes it streams for one row. Three executors
// walk the same list: the slow reference (src/reference), the CPU and the GPU. A kernel of the CPU is
// debugged by comparing a phase's output with the reference's. On the GPU whole passes are compared: the sum
// of a phase is made by the phase that reads it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/weights.h"

namespace slip::model {

enum class PhaseKind {
  kEmbed,           // stream = embed[token] * embed_scale
  kPerLayerInputs,  // per_layer = (norm(project(stream)) + table[token] * sqrt(P)) / sqrt(2), for all layers
                    // at once
  kQkv,             // norm, q/k/v projections, head norms, rotary embedding, append K and V to the cache
  kKeepOutputs,     // rows that want no output leave: nothing after this point stores anything for later rows
  kAttend,          // softmax(q k) v over the visible keys of the source layer
  kAttentionOut,    // stream += norm(o_proj(attended))
  kGateUp,  // activated = gelu(gate(norm(stream))) * up(norm(stream)); with experts also the router's choice
  kDown,    // stream += norm(down(activated) [+ experts]); last thing of a layer without per-layer inputs
  kPerLayerMix,  // stream += norm(project(gelu(gate(stream)) * per_layer)); last thing of a layer that has
                 // them
  kHead,         // hidden = norm(stream); logits = softcap(head(hidden))
  // Of draft networks (model/assistant.h, model/dflash.h).
  kDraftInput,  // stream = pre_projection(concat(target's embedding, hidden))
  kDraftHead,   // y = norm(stream); logits = head(y), perhaps by centroids; hidden = post_projection(y)
  kContext,     // stream = norm(fc(taps))
  kContextKv,   // k/v projections of the stream, head norm, rotary embedding, append to the cache
};

/// The activations that pass from phase to phase, one row of floats per batch row.
enum class Field {
  kNone,
  kStream,     // [h]      the residual stream
  kPerLayer,   // [L * P]
  kQuery,      // [nH*hd]  normed and rotated
  kAttended,   // [nH*hd]
  kActivated,  // [I]
  kLogits,     // [V]
};

struct Phase {
  PhaseKind kind;
  int layer = -1;  // -1 outside the layers
  Field input = Field::kNone;
  Field output = Field::kNone;
  size_t bytes = 0;  // weight bytes streamed by a step of one row
};

struct Program {
  Config config;
  const Weights* weights = nullptr;
  std::vector<Phase> phases;
  std::vector<int> taps;  // layers whose output is wanted of every row
  // Rows that want no output leave after the qkv phase of this layer; layer_count() = after the last layer.
  int leave_layer = 0;

  /// Weight bytes a step of one row reads; with experts, those of one row.
  size_t streamed_bytes() const;
};

/// `weights` must outlive the program.
Program build_program(const Config& config, const Weights& weights, std::vector<int> taps = {});
/// Appends the phases of one layer.
void add_layer(Program& program, int layer);

const char* name_of(PhaseKind kind);

/// Bytes a kernel streams to multiply with this matrix: 4 bits for 3- and 4-bit codes, 8 for 5, 6 and 8, plus
/// a scale and a bias per group; floats as stored.
size_t streamed_bytes(const Matrix& matrix);
/// Parameters, counting each code or float once.
size_t parameters(const Config& config);

}  // namespace slip::model
