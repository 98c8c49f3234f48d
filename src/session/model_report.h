// What can be said about a model from its files alone: parameters, bytes, cache sizes, memory. Pure
// arithmetic over an opened Checkpoint; no weight is read. `inspect` prints it, and commands that load a
// model use it to refuse one that cannot fit before they start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kv/layout.h"

namespace slip::session {

/// Matrices of one purpose: "attention", 140 of them, in these formats.
struct WeightGroup {
  std::string name;
  std::string formats;  // "4-bit, bf16"
  int matrices = 0;
  int64_t parameters = 0;
  size_t bytes = 0;     // packed for the kernels, or as stored where it is only looked up in
  bool mapped = false;  // rows are looked up in the file and never packed
};

struct CacheSize {
  int64_t positions = 0;
  size_t bytes = 0;       // one sequence of that length
  size_t read_bytes = 0;  // what attention reads for the token at its end
};

struct ModelReport {
  int64_t parameters = 0;
  int64_t active_parameters = 0;  // multiplied with for one token: without tables that are only looked up in,
                                  // and with the chosen experts alone
  size_t packed_bytes = 0;        // held in memory; mapped tables are not in it
  size_t streamed_bytes = 0;      // weights read for one token
  std::vector<WeightGroup> groups;
  std::vector<CacheSize> caches;  // at 1k, 8k, 32k and 128k, as far as the model goes
};

/// Bytes that the weights take once they are packed; tables that are looked up in the files are not in it.
size_t packed_bytes(const model::Weights& weights);

ModelReport report_on(const checkpoint::Checkpoint& checkpoint);

/// Memory to run one sequence of `context` positions: packed weights, cache, and what a step works in.
size_t memory_needed(const ModelReport& report, const model::Config& config, int64_t context,
                     kv::Storage storage = kv::Storage::kBf16);

}  // namespace slip::session
