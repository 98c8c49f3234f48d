// The specification: Gemma 4's text decoder in plain float loops, one row at a time. Every backend is tested
// against it and nothing in it is written for speed: all weights are widened to float up front, keys and
// values are kept as floats. Read forward.cpp from the top; it is the model.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "model/program.h"
#include "reference/maths.h"

namespace slip::reference {

/// What one sequence has stored so far, per layer; nothing for layers that own no KV.
struct Sequence {
  std::vector<KeyValues> layers;
  int length = 0;
};

struct Result {
  std::vector<float> hidden;  // [h] after the final norm
  std::vector<float> logits;  // [V]
};

class Forward {
 public:
  explicit Forward(const model::Program& program);

  /// Appends `token` to the sequence and returns its outputs.
  Result step(Sequence& sequence, int token);
  /// The same for a soft embedding (image, audio) in the token's place.
  Result step_embedding(Sequence& sequence, const std::vector<float>& embedding);
  /// The last phase by itself: [V] from [h] after the final norm.
  Row logits_of(const Row& hidden);

  /// Rounds what is stored for later rows to bf16, as a serving cache does; where K = V that is the one
  /// vector both are made from.
  bool bf16_cache = false;
  /// Rounds what affine matrices are multiplied with, as a backend does; the head may see fewer bits.
  ActivationRounding rounding = ActivationRounding::kNone, head_rounding = ActivationRounding::kNone;

  /// Of the last step of a mixture: by how much, in the closest of its layers, the last expert chosen led the
  /// best one left out. Whoever rounds by more may choose another.
  float routing_margin = INFINITY;

  /// Called after every phase with the field it wrote; for comparing executors phase by phase.
  std::function<void(const model::Phase&, const std::vector<float>&)> observe;
  /// Called before that; may change the field, as the rounding of another executor would (sensitivity.h).
  std::function<void(const model::Phase&, std::vector<float>&)> disturb;
  /// Called with what a layer is about to store (where K = V: the one vector, as values), not yet rounded;
  /// puts what another executor stored in its place, so that both read the same. Takes the place of
  /// bf16_cache.
  std::function<void(int layer, Row& keys, Row& values)> store;

 private:
  struct State;

  Result run(Sequence& sequence, int token, const Row* embedding);
  void embed(State& state);
  void per_layer_inputs(State& state);
  void qkv(State& state, int layer);
  void attend(State& state, int layer);
  void attention_out(State& state, int layer);
  void gate_up(State& state, int layer);
  void down(State& state, int layer);
  void round_for_cache(int layer, Row& keys, Row& values) const;
  Row experts(const State& state, int layer);
  void per_layer_mix(State& state, int layer);
  void end_of_layer(State& state, int layer);
  void head(State& state);

  Row norm(const Row& x, const Row& weight) const;

  const model::Program& program_;
  const model::Config& config_;
  const model::Weights& weights_;
  Tables tables_;
};

}  // namespace slip::reference
