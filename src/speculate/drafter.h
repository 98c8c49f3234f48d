// Drafter: guesses the tokens that a sequence will go on with. Three calls make up its life: propose() before
// a pass, committed() after it, settled() when the sequence is over. A drafter that lies costs time and
// nothing else: the engine keeps a guess only where the sampler picks the same token.
//
// A drafter draws its guesses with the request's own sampler, noise included (sample/sampler.h), so that with
// a temperature it guesses what will be drawn, not what is likeliest.
//
// begin() takes all memory a sequence will need; nothing allocates later.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/cache.h"
#include "sample/options.h"

namespace slip::speculate {

/// A sequence as drafters see it.
struct Subject {
  uint64_t id = 0;
  // Prompt and output; the last one is not in the cache yet (while decoding). A drafter may append its
  // guesses while it draws, as history for the sampler, and takes them off again.
  std::vector<int>* tokens = nullptr;
  int most_tokens = 0;               // it will ever have
  const kv::Cache* cache = nullptr;  // of the target
  const sample::Options* sampling = nullptr;
};

/// A wish for up to `depth` guesses, and the guesses. `drafts` may come with guesses of another drafter: then
/// go on after them or, where that cannot be done, leave them alone.
struct Proposal {
  const Subject* subject = nullptr;
  int depth = 0;
  std::vector<int> drafts;
};

/// What a pass has done for one sequence: `rows` positions were computed, the first `kept` are in the cache.
struct Pass {
  int rows = 0;
  int kept = 0;
  const float* hidden = nullptr;  // [hidden] of the last kept row; null when no row wanted output (a prompt's
                                  // early chunks)
  const float* taps = nullptr;    // [rows, taps * hidden]; null without taps
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// "mtp", "dflash", "suffix": as in --draft-kind.
  virtual const char* name() const = 0;
  /// The most guesses it makes in one round.
  virtual int most_drafts() const = 0;

  virtual void begin(const Subject& subject) = 0;
  /// Fills the proposals of any number of sequences, with fewer guesses than asked for where it has no more.
  virtual void propose(std::span<Proposal> proposals) = 0;
  virtual void committed(const Subject& subject, const Pass& pass) = 0;
  virtual void settled(uint64_t id) = 0;
};

}  // namespace slip::speculate
