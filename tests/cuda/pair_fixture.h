// Pairs of a model and its assistant on the GPU, of the shapes and formats that tests of drafting go through.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/model_fixture.h"
#include "support/draft_fixture.h"

namespace slip::test {

using PairKind = std::tuple<const char*, int>;  // the shape, and bits; 16 = bf16

class PairTest : public GpuTest, public testing::WithParamInterface<PairKind> {};

/// The emulated device takes a long time for a model: there, one with a centroid head and one with K = V.
inline auto pair_kinds() {
  return kEmulated ? testing::Combine(testing::ValuesIn(std::vector{"tiny-e2b", "tiny-dense"}),
                                      testing::ValuesIn(std::vector{4}))
                   : testing::Combine(
                         testing::ValuesIn(std::vector{"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}),
                         testing::ValuesIn(std::vector{4, 8, 16}));
}
inline std::string pair_name(const testing::TestParamInfo<PairKind>& of) {
  std::string name = std::string(std::get<0>(of.param)) + "_" + std::to_string(std::get<1>(of.param));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

/// Both on the device; the assistant for up to five rows.
struct LoadedPair {
  explicit LoadedPair(const PairKind& kind)
      : pair(std::get<0>(kind), std::get<1>(kind)),
        backend(backend::cuda::load(pair.target->config, pair.target->weights, cuda_options(64))),
        network(backend->load_assistant(pair.assistant->config, pair.assistant->weights, {.max_rows = 5})) {}

  const Pair pair;
  const std::unique_ptr<backend::Backend> backend;
  const std::unique_ptr<backend::Assistant> network;
};

}  // namespace slip::test
