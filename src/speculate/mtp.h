// MtpDrafter: Gemma 4's assistant as a drafter (model/assistant.h). A round starts from the target's hidden
// state at the last position in its cache and the newest token, and goes on from its own: one step of the
// assistant per guess, all sequences in one batch, those with fewer guesses leaving earlier.
//
// A backend may make several steps at once (Assistant::chain) with guesses it draws by itself. They are drawn
// again here, and a sequence for which another token comes out goes on from there, so guesses are the same
// with any backend.
//
// Memory: one hidden state per sequence. A round of depth d costs d steps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/drafting.h"
#include "sample/sampler.h"
#include "speculate/drafter.h"

namespace slip::speculate {

/// The rotary position of a round's queries. Engines differ; it moves acceptance, never the output.
enum class MtpPosition {
  kLastKey,      // of the newest key in the target's cache
  kNewestToken,  // of the newest token, one further
};

class MtpDrafter final : public Drafter {
 public:
  /// The assistant must outlive the drafter.
  explicit MtpDrafter(backend::Assistant& assistant, MtpPosition position = MtpPosition::kLastKey);

  const char* name() const override { return "mtp"; }
  Effort effort() const override { return Effort::kSteps; }
  int most_drafts() const override { return kMostDepth; }
  bool reads_hidden() const override { return true; }

  void begin(const SequenceView& view) override;
  void propose(std::span<Proposal> proposals) override;
  void committed(const SequenceView& view, const Pass& pass) override;
  void settled(uint64_t id) override { states_.erase(id); }

 private:
  struct State {
    std::vector<float> hidden;  // [hidden] of the target at the last position in its cache
    bool known = false;
    sample::Options sampling;  // the request's, without logprobs
    std::optional<backend::DrawRule> rule;
  };
  // A sequence of the batch at hand: row i of a step belongs to chains_[i].
  struct Chain {
    Proposal* proposal;
    State* state;
    int left() const { return proposal->depth - static_cast<int>(proposal->drafts.size()); }
  };

  void draw_batch();
  void ask(size_t chain);
  void follow(size_t chain, std::span<const backend::Output> steps);
  int draw(const Chain& chain, const Scores& scores);
  void leave(size_t chain);

  backend::Assistant& assistant_;
  const MtpPosition position_;
  const size_t hidden_;
  sample::Sampler sampler_;
  std::unordered_map<uint64_t, State> states_;
  std::vector<Chain> chains_;
  std::vector<backend::AssistantRow> rows_;
};

}  // namespace slip::speculate
