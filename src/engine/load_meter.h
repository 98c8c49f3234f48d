// LoadMeter: how fast prompts are read and text is written, over the last seconds of such work. A step that does
// both counts as prompt for its rows' share and as decoding for the rest. Cost: a few additions a step.
#pragma once

#include "engine/stats.h"

namespace slip::engine {

class LoadMeter {
 public:
  /// A step: rows of prompts it read, tokens it wrote, and its seconds.
  void add(int prompt_rows, int tokens, double seconds);

  /// Tokens per second; 0 = not measured yet.
  double prompt_rate() const { return prompt_.rate(); }
  double decode_rate() const { return decode_.rate(); }
  const StepSizes& sizes() const { return sizes_; }

 private:
  struct Rate {
    double tokens = 0, seconds = 0;
    void add(double more, double in_seconds);
    double rate() const { return seconds > 0 ? tokens / seconds : 0; }
  };
  Rate prompt_, decode_;
  StepSizes sizes_;
};

}  // namespace slip::engine
