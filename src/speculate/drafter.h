// Drafter: guesses the tokens that a sequence will go on with. Four calls make up its life: begin() when the
// sequence is admitted, propose() before a pass, committed() after it, settled() when the sequence is over. A
// drafter that lies costs time and nothing else: a guess is kept only where the sampler picks the same token.
//
// A drafter draws its guesses with the request's own sampler, noise included (sample/sampler.h), so that with
// a temperature it guesses what will be drawn, not what is likeliest.
//
// begin() takes all memory a sequence will need but pages of the pool; nothing else allocates later. What a drafter
// throws ends its own work only: the speculator drops it and keeps the sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/cache.h"
#include "sample/options.h"

namespace slip::speculate {

// No drafter of today reaches further: a block of 16 rows has 15 guesses.
inline constexpr int kMostDepth = 15;
// That can be loaded together.
inline constexpr int kMostDrafters = 4;

/// A sequence as drafters see it.
struct SequenceView {
  uint64_t id = 0;
  // Prompt and output; the last one is not in the cache yet (while decoding). The sequence alone writes them.
  std::span<const int> tokens = {};
  size_t prompt_tokens = 0;          // how many of them are the prompt
  int most_tokens = 0;               // it will ever have
  const kv::Cache* cache = nullptr;  // of the target
  const sample::Options* sampling = nullptr;
};

/// A wish for up to `depth` guesses, and the guesses. `drafts` may come with guesses of another drafter, not
/// counted in `depth`: then go on after them or, where that cannot be done, leave them alone. It has room for
/// kMostDepth guesses.
struct Proposal {
  const SequenceView* view = nullptr;
  int depth = 0;
  std::vector<int> drafts;
  // Filled by drafters that look up: how many tokens at the end of the text (and of given drafts) occurred
  // before what was copied. The longer, the better the guesses.
  int match = 0;
};

/// What a pass has done for one sequence: `rows` positions were computed, the first `kept` are in the cache.
struct Pass {
  int rows = 0;
  int kept = 0;
  const float* hidden = nullptr;  // [hidden] of the last kept row; null when no row wanted output (a prompt's
                                  // early chunks) or no drafter reads it
  const float* taps = nullptr;    // [rows, taps * hidden]; null without taps
};

/// What the depth controller must know of a drafter's costs.
enum class Effort {
  kLookup,  // nothing worth planning: asked in every round, before anything is decided
  kSteps,   // a step of its network for each guess
  kBlock,   // one pass for all guesses
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// "mtp", "dflash", "suffix": as in --draft-kind.
  virtual const char* name() const = 0;
  virtual Effort effort() const = 0;
  /// The most guesses it makes in one round.
  virtual int most_drafts() const = 0;
  /// The cache it keeps of every sequence beside the target's, of pages of the same pool; null = none.
  virtual const kv::Layout* layout() const { return nullptr; }
  virtual kv::Cache* cache(uint64_t) { return nullptr; }
  /// Floats of one row of Pass::taps, if it reads them.
  virtual size_t tap_floats() const { return 0; }
  /// Whether it reads Pass::hidden.
  virtual bool reads_hidden() const { return false; }

  virtual void begin(const SequenceView& view) = 0;
  /// Fills the proposals of any number of sequences, with fewer guesses than asked for where it has no more.
  virtual void propose(std::span<Proposal> proposals) = 0;
  virtual void committed(const SequenceView& view, const Pass& pass) = 0;
  virtual void settled(uint64_t id) = 0;
};

}  // namespace slip::speculate
