// The measurements of `bench`: everything in one process and in turns (bandwidth, decoding, widths,
// bandwidth, ...), so that a slow minute of the machine falls on all of them; medians are reported. Token ids
// are random, as in llama-bench: for a mixture of experts that is nearly even routing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace slip::cli {

struct BenchPlan {
  std::vector<int> widths = {1, 2, 4, 8, 16};
  std::vector<int> contexts = {0};  // positions in the cache before decoding
  int decode_steps = 8;             // per repetition and context
  std::vector<int> sequences = {};  // decoded together, one row each; empty = not measured
  int prompt = 512;                 // 0 = no prompt measurement
  int repeats = 5;
  bool phases = false;  // time the phases of every width
};

struct DecodeResult {
  int context = 0;     // positions in the cache at the start
  double seconds = 0;  // per token
  double bytes = 0;    // weights and KV read per token
};

struct WidthResult {
  int width = 0;
  double seconds = 0;                                    // per step
  std::vector<backend::Backend::PhaseTime> phases = {};  // per step, when asked for
};

struct SequencesResult {
  int count = 0;
  double seconds = 0;                                    // per step, which is a token for each
  std::vector<backend::Backend::PhaseTime> phases = {};  // per step, when asked for

  double tokens_per_second() const { return count / seconds; }
};

struct BenchResult {
  double bandwidth = 0;  // bytes per second
  double bandwidth_low = 0, bandwidth_high = 0;
  std::vector<DecodeResult> decode;
  std::vector<WidthResult> widths;         // at the first context
  std::vector<SequencesResult> sequences;  // at the first context; one alone comes first
  int prompt = 0;
  double prompt_seconds = 0;  // whole prompt, in chunks, the last row with logits
};

/// Of a list that is not empty; the upper one of two.
double median(std::vector<double> values);

/// `interrupted` is asked between steps; when it says yes the run ends with Error(kRuntime).
BenchResult run_bench(backend::Backend& backend, const BenchPlan& plan,
                      const std::function<bool()>& interrupted);

}  // namespace slip::cli
