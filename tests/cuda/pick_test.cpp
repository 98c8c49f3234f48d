// The best tokens that a step leaves, against a full sort on the host: rows with ties, zeros of both signs,
// impossible and damaged values, cut into any number of chunks; and what models and drafters give.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "checkpoint/dflash.h"
#include "cuda/model_fixture.h"
#include "reference/golden.h"
#include "support/best_tokens.h"
#include "support/draft_fixture.h"

namespace slip::backend::cuda {
namespace {

void expect_equal(const BestTokens& got, const BestTokens& want, const std::string& what) {
  ASSERT_EQ(got.wanted, want.wanted) << what;
  ASSERT_EQ(got.all_finite, want.all_finite) << what;
  if (want.all_finite == 0) return;
  ASSERT_EQ(got.count, want.count) << what;
  for (int i = 0; i < want.count; ++i) {
    ASSERT_EQ(got.tokens[i].id, want.tokens[i].id) << what << ", place " << i;
    ASSERT_EQ(got.tokens[i].value, want.tokens[i].value) << what << ", place " << i;
  }
}

enum class Kind { kSmooth, kTies, kEqual, kZeros, kSparse, kImpossible, kNan, kInfinite };
constexpr Kind kKinds[] = {Kind::kSmooth, Kind::kTies,       Kind::kEqual, Kind::kZeros,
                           Kind::kSparse, Kind::kImpossible, Kind::kNan,   Kind::kInfinite};

std::vector<float> values_of(Kind kind, int count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto u = static_cast<float>(keyed_uniform(seed, i));
    float& value = values[i];
    switch (kind) {
      case Kind::kSmooth: value = 40 * (u - 0.5f); break;
      case Kind::kTies: value = std::round(4 * (u - 0.5f)); break;
      case Kind::kEqual: value = -3.5f; break;
      case Kind::kZeros: value = u < 0.4f ? -0.0f : u < 0.8f ? 0.0f : -u; break;
      case Kind::kSparse: value = u < 0.99f ? -INFINITY : u; break;
      case Kind::kImpossible: value = -INFINITY; break;
      default: value = u;
    }
  }
  const auto bad = static_cast<size_t>(keyed_bits(seed, ~uint64_t{0}) % static_cast<uint64_t>(count));
  if (kind == Kind::kNan) values[bad] = NAN;
  if (kind == Kind::kInfinite) values[bad] = INFINITY;
  return values;
}

class CudaPick : public test::GpuTest {
 protected:
  /// The best of each row; `wanted` by row. Clusters: token ordering[i] has value i of a row.
  std::vector<BestTokens> pick(const std::vector<std::vector<float>>& rows, const std::vector<int>& wanted,
                               int chunks, const std::vector<int>& ordering = {}, int cluster_size = 0) {
    const int count = static_cast<int>(rows.size()), size = static_cast<int>(rows[0].size());
    const int kept = ordering.empty() ? 1 : size / cluster_size;
    const int part = size / kept, stride = (part + 3) / 4 * 4;
    std::vector<float> flat(static_cast<size_t>(count * kept * stride), NAN);  // gaps count for nothing
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < size; ++i)
        flat[static_cast<size_t>((n * kept + i / part) * stride + i % part)] =
            rows[static_cast<size_t>(n)][static_cast<size_t>(i)];
    }
    const DeviceMemory scores = test::upload(gpu(), flat);
    DeviceMemory found(sizeof(Found) * kMaxRows * kMostPickChunks * kMostCandidates, "test data");
    DeviceMemory counters(2 * kMaxRows * sizeof(uint32_t), "test data"), step(sizeof(Step), "test data");
    DeviceMemory list(sizeof(MatrixList), "test data");
    DeviceMemory order((ordering.size() + 1) * sizeof(int), "test data");
    PinnedMemory out(sizeof(BestTokens) * kMaxRows, "test data");
    gpu().clear(counters.data(), counters.size());
    std::memset(out.data(), 0, out.size());

    auto host = std::make_unique<Step>();
    for (int n = 0; n < kMaxRows; ++n) {
      host->best[n] = n < count ? wanted[static_cast<size_t>(n)] : 0;
      host->out_rows[n] = n < count ? count - 1 - n : -1;  // not in the order of the step
    }
    gpu().to_device(step.data(), host.get(), sizeof(Step));
    auto clusters = std::make_unique<MatrixList>();
    for (int i = 0; i < count * kept; ++i) clusters->matrix[i] = i % kept;
    gpu().to_device(list.data(), clusters.get(), sizeof(MatrixList));
    gpu().to_device(order.data(), ordering.data(), ordering.size() * sizeof(int));

    auto* zeros = reinterpret_cast<uint32_t*>(counters.data());
    PickJob job{.rows = count,
                .size = size,
                .chunks = chunks,
                .scores = reinterpret_cast<const float*>(scores.data()),
                .stride = stride,
                .found = reinterpret_cast<Found*>(found.data()),
                .finished = zeros,
                .damaged = zeros + kMaxRows,
                .out = reinterpret_cast<BestTokens*>(out.data())};
    if (!ordering.empty()) {
      job.list = reinterpret_cast<const MatrixList*>(list.data());
      job.ordering = reinterpret_cast<const int*>(order.data());
      job.kept = kept;
      job.cluster_size = cluster_size;
    }
    StepList steps;
    steps.add(StepKind::kPick, job, 0);
    steps.finish(gpu(), count);
    std::vector<BestTokens> results(static_cast<size_t>(count));
    for (int repeat = 0; repeat < 2; ++repeat) {  // the counters must be as before
      std::memset(out.data(), 0, out.size());
      steps.start(gpu(), reinterpret_cast<const Step*>(step.data()));
      gpu().finish();
    }
    for (int n = 0; n < count; ++n)
      results[static_cast<size_t>(n)] = reinterpret_cast<const BestTokens*>(out.data())[count - 1 - n];
    return results;
  }

  void expect_best(int size, const std::vector<int>& wanted, int chunks) {
    for (size_t first = 0; first < std::size(kKinds); first += wanted.size()) {
      std::vector<std::vector<float>> rows;
      for (size_t n = 0; n < wanted.size(); ++n) {
        rows.push_back(values_of(kKinds[(first + n) % std::size(kKinds)], size, 100 * first + n));
      }
      const auto got = pick(rows, wanted, chunks);
      for (size_t n = 0; n < wanted.size(); ++n) {
        const std::string what = std::to_string(size) + " values in " + std::to_string(chunks) +
                                 " chunks, row " + std::to_string(first + n) + ", best " +
                                 std::to_string(wanted[n]);
        if (wanted[n] == 0) {
          EXPECT_EQ(got[n].wanted, 0) << what;
          continue;
        }
        expect_equal(got[n], test::best_tokens(rows[n], wanted[n]), what);
      }
    }
  }
};

TEST_F(CudaPick, FindsTheBestOfEveryKindOfRowInAnyNumberOfChunks) {
  for (const int size : {1, 5, 511, 1024, 3001}) {
    for (const int chunks : {1, 3, 7}) {
      expect_best(size, {1, 1, 1, 1, 1, 1, 1, 1}, chunks);
      expect_best(size, {2, 0, 64, 128}, chunks);
    }
  }
  expect_best(3001, {66, 3, 1, 128, 127, 5, 64, 9}, 64);
}

TEST_F(CudaPick, FindsTheBestOfAFullVocabulary) {
  const int size = 262144;
  const int chunks = pick_chunks(gpu(), 2, size);
  expect_best(size, {1, 64}, chunks);
  if (test::kEmulated) return;
  for (const int k : {1, 2, 66, 128}) expect_best(size, std::vector<int>(16, k), 8);
  for (const int k : {1, 2, 66, 128}) expect_best(size, {k}, 64);
}

TEST_F(CudaPick, FindsTheBestTokensOfClustersByTheirIds) {
  const int cluster = 137, kept = 12, size = cluster * kept;  // several values of a thread
  const std::vector<int> wanted = {1, 20, 128};
  for (uint64_t seed = 0; seed < std::size(kKinds); ++seed) {
    std::vector<int> ordering(static_cast<size_t>(size));
    std::iota(ordering.begin(), ordering.end(), 0);
    for (size_t i = ordering.size(); i-- > 1;)
      std::swap(ordering[i], ordering[keyed_bits(seed, i) % (i + 1)]);
    for (const Kind kind : {kKinds[seed], Kind::kEqual}) {
      for (const int chunks : {1, 4}) {
        const auto values = values_of(kind, size, 77);
        std::vector<float> by_id(values.size());
        for (size_t i = 0; i < values.size(); ++i) by_id[static_cast<size_t>(ordering[i])] = values[i];
        const auto got = pick({values, values, values}, wanted, chunks, ordering, cluster);
        for (size_t n = 0; n < wanted.size(); ++n)
          expect_equal(got[n], test::best_tokens(by_id, wanted[n]), "clusters, row " + std::to_string(n));
      }
    }
  }
}

// Every third row of a step wants its logits, the others some of their best tokens. More rows than one pass
// holds.
TEST_F(CudaPick, AModelGivesEachRowWhatItAskedFor) {
  for (const char* shape : {"tiny-e2b", "tiny-moe"}) {
    synth::SynthOptions options;
    options.shape = shape;
    const auto target = synth::synthesize(options);
    const auto backend = load(target->config, target->weights, test::cuda_options(64));
    const auto run = [&](bool lists) {
      const auto cache = backend->new_cache();
      cache->reserve(64);
      std::vector<Row> rows(13);
      for (int i = 0; i < 13; ++i) {
        rows[static_cast<size_t>(i)] = {.token = test::token_at(target->config, 9, i),
                                        .position = i,
                                        .output = i != 4 && i != 10,
                                        .candidates = lists && i % 3 != 0 ? 1 + i * (i % 2) * 6 : 0};
      }
      kv::Cache* caches[] = {cache.get()};
      cache->stage(13);
      const Output out = backend->run({.rows = rows, .sequences = caches, .hidden = !lists});
      return std::pair(out, rows);
    };
    const auto vocab = static_cast<size_t>(target->config.vocab);
    const Output dense = run(false).first;
    ASSERT_EQ(dense.rows, 11);
    EXPECT_NE(dense.hidden, nullptr);
    const std::vector<float> logits(dense.logits, dense.logits + 11 * vocab);
    const auto [out, rows] = run(true);
    ASSERT_EQ(out.rows, 11);
    EXPECT_EQ(out.hidden, nullptr);  // nobody wanted them
    int at = 0;
    for (const Row& row : rows) {
      if (!row.output) continue;
      const std::span<const float> want(logits.data() + static_cast<size_t>(at) * vocab, vocab);
      const Scores scores = out.scores(at, static_cast<int>(vocab));
      if (row.candidates == 0) {
        ASSERT_EQ(scores.best, nullptr);
        EXPECT_EQ(std::memcmp(scores.logits.data(), want.data(), vocab * sizeof(float)), 0) << at;
      } else {
        ASSERT_NE(scores.best, nullptr);
        expect_equal(*scores.best, test::best_tokens(want, row.candidates), "row " + std::to_string(at));
      }
      ++at;
    }
  }
}

TEST_F(CudaPick, AssistantsGiveTheBestTokensWithEveryKindOfHead) {
  for (const char* shape : {"tiny-e2b", "tiny-dense"}) {
    const test::Pair pair(shape, 4);
    const auto backend = load(pair.target->config, pair.target->weights, test::cuda_options(64));
    const test::TargetText text(*backend, 5, 20);
    const auto assistant =
        backend->load_assistant(pair.assistant->config, pair.assistant->weights, {.max_rows = 4});
    const int vocab = pair.target->config.vocab;
    const int wanted[] = {1, 0, 64, 7};
    std::vector<AssistantRow> rows;
    for (int i = 0; i < 4; ++i) rows.push_back(row_for(text, text.hidden.data(), 3 + i));
    const Output dense = assistant->step(rows);
    const std::vector<float> logits(dense.logits, dense.logits + 4 * vocab);
    for (size_t i = 0; i < 4; ++i) rows[i].candidates = wanted[i];
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Output out = assistant->step(rows);
      for (int i = 0; i < 4; ++i) {
        const std::span<const float> want(logits.data() + i * vocab, static_cast<size_t>(vocab));
        const Scores scores = out.scores(i, vocab);
        if (wanted[i] == 0) {
          ASSERT_EQ(scores.best, nullptr);
          EXPECT_EQ(std::memcmp(scores.logits.data(), want.data(), want.size_bytes()), 0);
        } else {
          ASSERT_NE(scores.best, nullptr);
          expect_equal(*scores.best, test::best_tokens(want, wanted[i]),
                       std::string(shape) + ", row " + std::to_string(i));
        }
      }
    }
  }
}

TEST_F(CudaPick, BlockDraftersGiveTheBestTokensOfEveryRow) {
  const test::Golden golden("dense");
  const auto dflash = checkpoint::open_dflash(golden.folder + "/dflash", golden.target->config);
  const auto backend = load(golden.target->config, golden.target->weights, test::cuda_options(64));
  backend->set_taps(dflash->config.taps);
  const test::TargetText text(*backend, 3, 21, dflash->config.taps.size());
  const auto drafter = backend->load_dflash(dflash->config, dflash->weights, {});
  const auto cache = drafter->new_cache();
  cache->reserve(64);
  const ContextRows context{cache.get(), text.taps.data(), 21};
  drafter->extend({&context, 1});
  const int vocab = golden.vocab();
  Block block{.cache = cache.get(), .anchor = 7, .rows = 4};
  const Output dense = drafter->run({&block, 1});
  const std::vector<float> logits(dense.logits, dense.logits + 3 * vocab);
  for (const int wanted : {1, 40}) {
    block.candidates = wanted;
    const Output out = drafter->run({&block, 1});
    ASSERT_EQ(out.rows, 3);
    for (int i = 0; i < 3; ++i) {
      const std::span<const float> want(logits.data() + i * vocab, static_cast<size_t>(vocab));
      ASSERT_NE(out.scores(i, vocab).best, nullptr);
      expect_equal(*out.scores(i, vocab).best, test::best_tokens(want, wanted), "row " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace slip::backend::cuda
