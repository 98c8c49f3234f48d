// Decision: why a sequence is decoded the way it is, as numbers; sentence() makes words of them. Numbers,
// because a decision is reached in every round and nothing allocates there.
#pragma once

#include <string>

namespace slip::speculate {

struct Decision {
  enum class Kind {
    kNone,      // no round yet
    kLearning,  // a width or a drafter is being measured
    kChosen,    // guesses pay
    kParked,    // they do not
    kNothing,   // nobody had a guess
    kFixed,     // the depth was given
  };
  Kind kind = Kind::kNone;
  int drafter_index = -1;
  const char* drafter = nullptr;  // its name
  int depth = 0;
  double acceptance = 0;  // of the first guess
  double tokens = 1;      // expected of a pass
  double cost = 1;        // of the round, in plain passes
};

/// "parked: 0.02 accepted per guess would cost 1.80 times a plain step".
std::string sentence(const Decision& decision);

}  // namespace slip::speculate
