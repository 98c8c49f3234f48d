// A model on the GPU, and sequences fed with their own token streams.
#pragma once

#include <cmath>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "base/noise.h"
#include "cuda/gpu_fixture.h"
#include "reference/sensitivity.h"
#include "support/compare.h"
#include "synth/synthetic.h"

namespace slip::test {

#ifdef SLIP_CUDA_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

inline backend::cuda::CudaOptions cuda_options(int max_rows, kv::Storage storage = kv::Storage::kBf16) {
  backend::cuda::CudaOptions options;
  options.threads = 2;
  options.max_rows = max_rows;
  options.kv_storage = storage;
  return options;
}

/// What the device rounds by (reference/sensitivity.h): sums of floats, angles of floats, and the values of rows that
/// are cut to 16 bits, or to 11 (backend/cuda/device_weights.cpp).
inline double device_noise(const model::Config& config, int bits, int positions) {
  return reference::float_noise(config, positions) + std::ldexp(1.0, -bits - 1);
}
/// Bits of a row's values where it meets codes of `weight_bits`.
inline int row_bits(const model::Config& config, int weight_bits) {
  return config.experts == 0 && weight_bits < 16 ? 11 : 16;
}

class Harness {
 public:
  explicit Harness(const checkpoint::Checkpoint& checkpoint, kv::Storage storage = kv::Storage::kBf16,
                   int max_rows = 64)
      : checkpoint_(checkpoint),
        backend_(
            backend::cuda::load(checkpoint.config, checkpoint.weights, cuda_options(max_rows, storage))) {
    backend_->pages().poison_new_pages(true);  // what a page held before is not to be read
  }

  backend::Backend& backend() { return *backend_; }

  struct Sequence {
    std::unique_ptr<kv::Cache> cache;
    uint64_t seed;
    std::vector<std::vector<float>> logits, hidden;  // by position; empty where no output was asked for
  };
  Sequence start(uint64_t seed, int64_t capacity = 512) {
    Sequence sequence{backend_->new_cache(), seed, {}, {}};
    sequence.cache->reserve(capacity);
    return sequence;
  }
  int token(uint64_t seed, int position) const {
    return static_cast<int>(keyed_bits(seed, static_cast<uint64_t>(position)) %
                            static_cast<uint64_t>(checkpoint_.config.vocab));
  }

  std::vector<int> tokens(uint64_t seed, size_t count) const {
    std::vector<int> all(count);
    for (size_t i = 0; i < count; ++i) all[i] = token(seed, static_cast<int>(i));
    return all;
  }

  struct Part {
    Sequence* sequence;
    int rows;
    bool outputs = true;  // false: only the last row
    bool commit = true;
  };
  /// One step over several sequences.
  void step(const std::vector<Part>& parts) {
    std::vector<backend::Row> rows;
    std::vector<kv::Cache*> caches;
    for (const Part& part : parts) {
      for (int i = 0; i < part.rows; ++i) {
        backend::Row row;
        row.position = part.sequence->cache->length() + i;
        row.token = token(part.sequence->seed, row.position);
        row.sequence = static_cast<int>(caches.size());
        row.output = part.outputs || i == part.rows - 1;
        rows.push_back(row);
      }
      part.sequence->cache->stage(part.rows);
      caches.push_back(part.sequence->cache.get());
    }
    const backend::Output out = backend_->run({rows, caches});
    int next = 0;
    for (const backend::Row& row : rows) {
      Sequence& sequence = *parts[static_cast<size_t>(row.sequence)].sequence;
      const auto at = static_cast<size_t>(row.position);
      sequence.logits.resize(std::max(sequence.logits.size(), at + 1));
      sequence.hidden.resize(std::max(sequence.hidden.size(), at + 1));
      if (!row.output) continue;
      const auto index = static_cast<int64_t>(next++);
      const float* logits = out.logits + index * checkpoint_.config.vocab;
      const float* hidden = out.hidden + index * checkpoint_.config.hidden;
      sequence.logits[at].assign(logits, logits + checkpoint_.config.vocab);
      sequence.hidden[at].assign(hidden, hidden + checkpoint_.config.hidden);
    }
    EXPECT_EQ(next, out.rows);
    for (const Part& part : parts) part.sequence->cache->commit(part.commit ? part.rows : 0);
  }
  void feed(Sequence& sequence, int total, int width) {
    while (sequence.cache->length() < total)
      step({{&sequence, std::min(width, total - sequence.cache->length())}});
  }

 private:
  const checkpoint::Checkpoint& checkpoint_;
  std::unique_ptr<backend::Backend> backend_;
};

}  // namespace slip::test
