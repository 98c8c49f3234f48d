// A target that has read some text, and the assistant rows that go on from it: for the tests of draft
// networks on any backend.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/noise.h"
#include "synth/synthetic.h"

namespace slip::test {

inline int token_at(const model::Config& config, uint64_t seed, int position) {
  return static_cast<int>(keyed_bits(seed, static_cast<uint64_t>(position)) %
                          static_cast<uint64_t>(config.vocab));
}

/// A sequence of the target; keeps the hidden state of its last row and the taps of all rows.
struct TargetText {
  TargetText(backend::Backend& backend, uint64_t seed, int length, size_t tap_count = 0, int width = 64)
      : cache(backend.new_cache()) {
    const model::Config& config = backend.config();
    const auto hidden_size = static_cast<size_t>(config.hidden);
    cache->reserve(length + 16);
    while (cache->length() < length) {
      const int count = std::min(width, length - cache->length());
      std::vector<backend::Row> rows(static_cast<size_t>(count));
      for (int i = 0; i < count; ++i) {
        backend::Row& row = rows[static_cast<size_t>(i)];
        row.position = cache->length() + i;
        row.token = token_at(config, seed, row.position);
        row.output = i == count - 1;
      }
      kv::Cache* caches[] = {cache.get()};
      cache->stage(count);
      const backend::Output out = backend.run({rows, caches});
      cache->commit(count);
      hidden.assign(out.hidden, out.hidden + hidden_size);
      if (out.taps != nullptr)
        taps.insert(taps.end(), out.taps, out.taps + rows.size() * tap_count * hidden_size);
    }
  }

  std::unique_ptr<kv::Cache> cache;
  std::vector<float> hidden;
  std::vector<float> taps;
};

struct Pair {
  Pair(const std::string& shape, int bits) {
    synth::SynthOptions options;
    options.shape = shape;
    options.bits = bits;
    options.assistant_bits = bits;
    target = synth::synthesize(options);
    assistant = synth::synthesize_assistant(options);
  }
  std::unique_ptr<checkpoint::Checkpoint> target;
  std::unique_ptr<checkpoint::AssistantCheckpoint> assistant;
};

inline backend::AssistantRow row_for(const TargetText& text, const float* hidden, int token) {
  return {.token = token,
          .hidden = hidden,
          .position = text.cache->length() - 1,
          .keys = text.cache->length(),
          .cache = text.cache.get()};
}

}  // namespace slip::test
