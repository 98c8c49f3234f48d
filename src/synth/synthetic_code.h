// RotationCode: token ids as points that one linear map moves to the next. Token t is the vector of pairs
// (cos w_i t, sin w_i t); turning every pair by w_i gives the vector of t + 1, and unrelated tokens are
// nearly orthogonal. A target whose one MLP turns the code, and an assistant whose input projection does,
// predict t + 1 after t by honest computation, at any size and without training (synthetic.h).
//
// All w_i are multiples of 2 pi / vocab, so the last token is followed by token 0. The first pairs, which the
// assistant reads too, hold `slow` ones when it has a centroid head: they hardly change inside a cluster of
// neighbouring tokens, so the mean of a cluster finds its members; the fast ones tell these apart.
//
// The target also has a constant coordinate after the pairs: a gate that reads it is open for every token.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/assistant.h"
#include "synth/synthetic_pattern.h"

namespace slip::synth {

class RotationCode {
 public:
  /// The layer of the target whose MLP turns the code.
  static constexpr int kTurningLayer = 0;
  /// Tokens whose codes must be told apart by their fast pairs: the size of a cluster, or of a block of
  /// tokens under a dense head.
  int block() const { return block_; }

  /// Throws Error(kUsage) when the target or the assistant is too narrow; `shape` names them in the message.
  RotationCode(const model::Config& target, const model::AssistantConfig& assistant, uint64_t seed,
               const std::string& shape);

  int vocab() const { return vocab_; }
  /// Pairs in the target, and in the assistant (the first ones of the target's).
  int pairs() const { return static_cast<int>(turns_.size()); }
  int assistant_pairs() const { return assistant_pairs_; }
  int slow_pairs() const { return slow_pairs_; }

  /// The first `pairs` pairs of a token: out[2 * pairs]. Token may be any number up to vocab.
  void write(int64_t token, int pairs, float* out) const;
  /// One step of pair i.
  float step_cos(int pair) const { return circle_[2 * turns_[static_cast<size_t>(pair)]]; }
  float step_sin(int pair) const { return circle_[2 * turns_[static_cast<size_t>(pair)] + 1]; }

 private:
  void choose_turns(uint64_t seed, int count);

  int vocab_;
  int block_;
  int assistant_pairs_ = 0;
  int slow_pairs_ = 0;
  std::vector<uint32_t> turns_;  // w_i = 2 pi turns_[i] / vocab
  std::vector<float> circle_;    // cos, sin of 2 pi j / vocab for all j
};

using SharedCode = std::shared_ptr<const RotationCode>;
using SharedPattern = std::shared_ptr<const RowPattern>;

/// Row t: the code of t, a 1, and noise of 1/8 in what is left.
SharedPattern target_embedding(SharedCode code, uint64_t seed);
/// Row j: coordinate j of the code (the up projection of the turning layer).
SharedPattern code_coordinates(const SharedCode& code);
/// Every row that has a code coordinate: the constant (its gate projection).
SharedPattern constant_gates(const SharedCode& code);
/// Turns the first `pairs` pairs by one step (its down projection; the assistant's input projection).
SharedPattern turned_pairs(SharedCode code, int pairs);
/// Row t: the code of tokens[t], or its negative where tokens[t] is ~token (the assistant's head).
SharedPattern assistant_embedding(SharedCode code, std::vector<int32_t> tokens);
/// Row c: the slow pairs of token centres[c], without the fast ones.
SharedPattern cluster_centres(SharedCode code, std::vector<int32_t> centres);

/// Which token's code stands in each row of the assistant's head, so that it guesses right with probability
/// `acceptance`: the rows of the others (each token by a hash of its own) are handed on inside their block,
/// and one that is alone there is negated. Exact at 0 and 1.
std::vector<int32_t> misplaced_rows(const RotationCode& code, double acceptance, uint64_t seed);

}  // namespace slip::synth
