// Chains of draft steps on the device against single steps with the host in between: embeddings, draws, and
// the guesses that come of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cuda/cuda_drafters.h"
#include "cuda/pair_fixture.h"
#include "sample/candidates.h"
#include "sample/sampler.h"
#include "speculate/mtp.h"
#include "support/best_tokens.h"

namespace slip::backend::cuda {
namespace {

using test::OwnedMatrix;
using test::Pair;
using test::TargetText;

struct TableKind {
  const char* name;
  int bits, group;  // 16 = bf16
};
constexpr TableKind kTables[] = {{"bf16", 16, 0},         {"affine8", 8, 64},     {"affine6", 6, 64},
                                 {"affine4", 4, 64},      {"affine4by32", 4, 32}, {"affine8by32", 8, 32},
                                 {"affine4by128", 4, 128}};

OwnedMatrix table_of(const TableKind& kind, int64_t rows, int64_t cols) {
  if (kind.bits == 16) return test::random_float_matrix(tensor::DType::kBf16, rows, cols, 3);
  return test::random_affine_matrix(kind.bits, kind.group, tensor::DType::kBf16, rows, cols, 3);
}

class CudaNextDraft : public test::GpuTest {
 protected:
  /// The tokens that are drawn by these rules from lists of the best, and to `out` [row][2 * cols] their
  /// embeddings; tokens 5 and 24 are embedded as token 2.
  std::vector<int> next(const std::vector<BestTokens>& lists, const std::vector<Drawing>& drawings,
                        const OwnedMatrix& table, int turn, std::vector<float>* out = nullptr) {
    const int count = static_cast<int>(lists.size());
    const auto cols = static_cast<size_t>(table.matrix.cols);
    DeviceMemory memory, best(lists.size() * sizeof(BestTokens), "test data");
    DeviceMemory rules(drawings.size() * sizeof(Drawing), "test data");
    DeviceMemory inputs(lists.size() * 2 * cols * sizeof(float), "test data");
    const PackedMatrix packed = test::upload_matrix(gpu(), table.matrix, table.matrix.rows, nullptr, memory);
    gpu().to_device(best.data(), lists.data(), best.size());
    gpu().to_device(rules.data(), drawings.data(), rules.size());
    gpu().clear(inputs.data(), inputs.size());
    StepList list;
    list.add(StepKind::kNextDraft,
             NextDraftJob{.rows = count,
                          .turn = turn,
                          .drawings = reinterpret_cast<const Drawing*>(rules.data()),
                          .best = reinterpret_cast<BestTokens*>(best.data()),
                          .table = packed,
                          .scale = kScale,
                          .out = reinterpret_cast<float*>(inputs.data()),
                          .stride = static_cast<int64_t>(2 * cols),
                          .placeholders = {5, 24},
                          .placeholder_count = 2,
                          .pad = 2},
             0);
    list.finish(gpu(), count);
    list.start(gpu(), nullptr);
    std::vector<BestTokens> after(lists.size());
    gpu().to_host(after.data(), best.data(), best.size());
    gpu().finish();
    if (out != nullptr) *out = test::download(gpu(), inputs, lists.size() * 2 * cols);
    std::vector<int> tokens;
    for (const BestTokens& one : after) tokens.push_back(one.next);
    return tokens;
  }
  static constexpr float kScale = 61.97f;
};

class CudaNextDraftOf : public CudaNextDraft, public testing::WithParamInterface<TableKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CudaNextDraftOf, testing::ValuesIn(kTables),
                         [](const auto& test) { return std::string(test.param.name); });

// Low and tall matrices, whose tiles differ; columns that end with a whole piece, or with half of one.
TEST_P(CudaNextDraftOf, EmbedsWithTheBitsOfTheCheckpoint) {
  const TableKind kind = GetParam();
  for (const int64_t rows : {37, 8200}) {
    for (const int64_t cols : {128, 320, 384}) {
      if (kind.group != 0 && cols % kind.group != 0) continue;
      const OwnedMatrix table = table_of(kind, rows, cols);
      const std::vector<int> tokens = {0, 7, 8, 15, 16, 5, static_cast<int>(rows) - 1, 24, 35};
      std::vector<BestTokens> lists(tokens.size());
      for (size_t n = 0; n < tokens.size(); ++n) {
        lists[n].count = 1;
        lists[n].tokens[0] = {1.5f, tokens[n]};
      }
      std::vector<float> got, want(static_cast<size_t>(2 * cols));  // nothing beside the embedding
      const std::vector<Drawing> greedy(tokens.size(), drawing_of({}, static_cast<int>(rows)));
      EXPECT_EQ(next(lists, greedy, table, 0, &got), tokens);
      tensor::RowReader reader(table.matrix);
      for (size_t n = 0; n < tokens.size(); ++n) {
        reader.floats(tokens[n] == 5 || tokens[n] == 24 ? 2 : tokens[n], want.data());
        for (size_t c = 0; c < static_cast<size_t>(cols); ++c) want[c] *= kScale;
        EXPECT_EQ(std::memcmp(&got[n * want.size()], want.data(), want.size() * sizeof(float)), 0)
            << rows << " x " << cols << ", token " << tokens[n];
      }
    }
  }
}

/// The rule of options that a device can follow.
DrawRule rule_for(const sample::Options& options, int64_t position) {
  DrawRule rule{.temperature = options.greedy() ? 0 : options.temperature,
                .top_k = options.top_k,
                .top_p = options.top_p,
                .min_p = options.min_p,
                .seed = options.seed,
                .position = position,
                .suppressed_count = static_cast<int>(options.suppressed.size())};
  std::copy(options.suppressed.begin(), options.suppressed.end(), rule.suppressed.begin());
  return rule;
}

std::vector<sample::Options> drawn_options() {
  std::vector<sample::Options> all(7);
  all[1].suppressed = {3, 11, 200};
  all[2] = {.temperature = 1, .top_k = 64, .top_p = 0.95f};
  all[3] = {.temperature = 0.7f, .top_k = 20, .top_p = 0.5f, .min_p = 0.1f};
  all[4] = {.temperature = 2, .top_k = 100};
  all[4].suppressed = {1, 2, 3, 4, 5, 6, 7, 8};
  all[5] = {.temperature = 1.3f, .top_k = 1, .top_p = 0.3f};
  all[6] = {.temperature = 0.9f, .top_k = 120, .top_p = 0.999f};
  all[6].suppressed = {17};
  return all;
}

// Smooth rows, rows of a few equal values, and rows where all but some tokens are impossible.
TEST_F(CudaNextDraft, DrawsWhatTheSamplerDraws) {
  constexpr int kVocab = 700, kDraws = test::kEmulated ? 60 : 600;
  const OwnedMatrix table = table_of({"", 4, 64}, kVocab, 64);
  sample::Sampler sampler(kVocab);
  std::vector<sample::Options> options = drawn_options();
  int others = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const int turn = draw % 5;
    std::vector<std::vector<float>> rows(options.size(), std::vector<float>(kVocab));
    std::vector<Drawing> drawings;
    std::vector<BestTokens> lists;
    for (size_t n = 0; n < options.size(); ++n) {
      for (size_t i = 0; i < kVocab; ++i) {
        const float value = test::noise(static_cast<uint64_t>(draw), n * kVocab + i);
        rows[n][i] = draw % 3 == 0   ? 9 * value
                     : draw % 3 == 1 ? std::round(2 * value)
                     : value < 0.97f ? -INFINITY
                                     : 40 * value;
      }
      options[n].seed = static_cast<uint64_t>(draw / 2);
      drawings.push_back(drawing_of(rule_for(options[n], 100 + draw), kVocab));
      lists.push_back(test::best_tokens(rows[n], sample::candidates_needed(options[n], 0, 0)));
    }
    const std::vector<int> got = next(lists, drawings, table, turn);
    for (size_t n = 0; n < options.size(); ++n) {
      const int want = sampler.sample(rows[n], {.position = 100 + draw + turn}, options[n]).token;
      EXPECT_EQ(got[n], want) << "draw " << draw << ", options " << n;
      others += want != lists[n].tokens[0].id ? 1 : 0;
    }
  }
  EXPECT_GT(others, 2 * kDraws);  // draws, not just the best
}

TEST_F(CudaNextDraft, TakesSomeTokenWhereNoneIsPossible) {
  const OwnedMatrix table = table_of({"", 4, 64}, 64, 64);
  std::vector<BestTokens> lists(2);  // an empty list, and one whose only token is suppressed
  lists[1].count = 1;
  lists[1].tokens[0] = {1, 7};
  DrawRule rule{.temperature = 1, .top_k = 10, .top_p = 0.9f};
  rule.suppressed[0] = 7;
  rule.suppressed_count = 1;
  EXPECT_EQ(next(lists, {2, drawing_of(rule, 64)}, table, 0), std::vector<int>({0, 0}));
}

/// The assistant without chains.
class StepByStep final : public Assistant {
 public:
  explicit StepByStep(Assistant& network) : network_(network) {}
  const model::AssistantConfig& config() const override { return network_.config(); }
  int max_rows() const override { return network_.max_rows(); }
  Output step(std::span<const AssistantRow> rows) override { return network_.step(rows); }
  size_t streamed_bytes() const override { return 0; }
  size_t resident_bytes() const override { return 0; }

 private:
  Assistant& network_;
};

/// The assistant, with a count of what it was asked for.
class Counted final : public Assistant {
 public:
  explicit Counted(Assistant& network) : network_(network) {}
  const model::AssistantConfig& config() const override { return network_.config(); }
  int max_rows() const override { return network_.max_rows(); }
  Output step(std::span<const AssistantRow> rows) override { return network_.step(rows); }
  std::span<const Output> chain(std::span<const AssistantRow> rows, int depth) override {
    const auto outputs = network_.chain(rows, depth);
    ++chains;
    steps += static_cast<int>(outputs.size());
    return outputs;
  }
  const float* hidden_after(size_t step, size_t row) override { return network_.hidden_after(step, row); }
  size_t streamed_bytes() const override { return 0; }
  size_t resident_bytes() const override { return 0; }
  int chains = 0, steps = 0;

 private:
  Assistant& network_;
};

class CudaChainOf : public test::PairTest {};

TEST_P(CudaChainOf, GivesEveryStepTheBitsOfSingleSteps) {
  const test::LoadedPair loaded(GetParam());
  const auto& [pair, backend, network] = loaded;
  const auto hidden_size = static_cast<size_t>(pair.target->config.hidden);
  std::vector<TargetText> texts;
  for (const int length : {300, 9, 64}) texts.emplace_back(*backend, 11 + length, length);
  std::vector<DrawRule> rules(3);
  rules[1] = {.temperature = 1.5f, .top_k = 40, .top_p = 0.95f, .seed = 5, .position = 10};
  rules[2].suppressed = {1, 2};
  rules[2].suppressed_count = 2;
  for (const size_t count : {size_t{3}, size_t{1}}) {
    std::vector<AssistantRow> rows;
    for (size_t i = 0; i < count; ++i) {
      rows.push_back(test::row_for(texts[i], texts[i].hidden.data(), 17 + static_cast<int>(i)));
      rows[i].candidates = std::vector{1, 40, 3}[i];
      rows[i].draw = &rules[i];
    }
    for (const int depth : {3, 1, 4}) {  // shorter ones between longer ones
      const auto chain = network->chain(rows, depth);
      ASSERT_EQ(chain.size(), static_cast<size_t>(depth));
      std::vector<std::vector<BestTokens>> best;
      std::vector<std::vector<float>> hidden;
      for (const Output& output : chain) best.emplace_back(output.best, output.best + count);
      for (size_t s = 0; s < chain.size(); ++s) {
        hidden.emplace_back();
        for (size_t i = 0; i < count; ++i) {
          const float* from = network->hidden_after(s, i);
          hidden[s].insert(hidden[s].end(), from, from + hidden_size);
        }
      }
      std::vector<AssistantRow> now = rows;
      for (size_t s = 0; s < best.size(); ++s) {
        const Output want = network->step(now);
        for (size_t i = 0; i < count; ++i) {
          const BestTokens& list = best[s][i];
          ASSERT_EQ(list.count, want.best[i].count);
          EXPECT_EQ(std::memcmp(list.tokens, want.best[i].tokens,
                                static_cast<size_t>(list.count) * sizeof(Candidate)),
                    0)
              << "step " << s << ", row " << i;
          EXPECT_EQ(std::memcmp(&hidden[s][i * hidden_size], want.hidden + i * hidden_size,
                                hidden_size * sizeof(float)),
                    0)
              << "step " << s << ", row " << i;
          now[i].token = list.next;
          now[i].hidden = &hidden[s][i * hidden_size];
        }
      }
    }
  }
}

/// A sequence with its text, as a drafter sees it after a pass.
struct Line {
  Line(Backend& backend, uint64_t id, int length, const sample::Options& options)
      : text(backend, id, length), sampling(options) {
    for (int i = 0; i <= length; ++i) tokens.push_back(test::token_at(backend.config(), id, i));
    view = {.id = id,
            .tokens = tokens,
            .most_tokens = length + 64,
            .cache = text.cache.get(),
            .sampling = &sampling};
  }
  TargetText text;
  sample::Options sampling;
  std::vector<int> tokens;
  speculate::SequenceView view;
};

std::vector<std::vector<int>> guesses_of(Assistant& network, std::vector<std::unique_ptr<Line>>& lines,
                                         const std::vector<int>& depths) {
  speculate::MtpDrafter drafter(network);
  std::vector<speculate::Proposal> proposals;
  for (size_t i = 0; i < lines.size(); ++i) {
    drafter.begin(lines[i]->view);
    drafter.committed(lines[i]->view, {.rows = 1, .kept = 1, .hidden = lines[i]->text.hidden.data()});
    proposals.push_back({.view = &lines[i]->view, .depth = depths[i], .drafts = {}});
  }
  drafter.propose(proposals);
  std::vector<std::vector<int>> guesses;
  for (auto& proposal : proposals) guesses.push_back(proposal.drafts);
  return guesses;
}

TEST_P(CudaChainOf, DraftsTheTokensThatTheHostWouldDraft) {
  const test::LoadedPair loaded(GetParam());
  const auto& [pair, backend, network] = loaded;
  StepByStep slow(*network);
  std::vector<sample::Options> options = drawn_options();
  const std::vector<int> depths = {4, 1, 3, 2, 10, 5, 4};  // more rows than one chain takes, more steps too
  std::vector<std::unique_ptr<Line>> lines;
  for (size_t i = 0; i < options.size(); ++i) {
    options[i].seed = 40 + i;
    lines.push_back(std::make_unique<Line>(*backend, i + 1, 20 + 9 * static_cast<int>(i), options[i]));
  }
  Counted fast(*network);
  const auto guesses = guesses_of(fast, lines, depths);
  EXPECT_EQ(guesses, guesses_of(slow, lines, depths));
  for (size_t i = 0; i < depths.size(); ++i) EXPECT_EQ(guesses[i].size(), static_cast<size_t>(depths[i]));
  EXPECT_EQ(fast.chains, 3);  // 8 and 2 steps for the first five, 5 for the others
  EXPECT_EQ(fast.steps, 15);
}

// Penalties, biases and draws from all tokens are the host's alone; one such row keeps the others waiting.
TEST_P(CudaChainOf, GoesStepByStepWhereOnlyTheHostCanDraw) {
  const test::LoadedPair loaded(GetParam());
  const auto& [pair, backend, network] = loaded;
  StepByStep slow(*network);
  std::vector<sample::Options> options(3);
  options[0].repetition_penalty = 1.2f;
  options[1].temperature = 1;
  std::vector<std::unique_ptr<Line>> lines;
  for (size_t i = 0; i < options.size(); ++i)
    lines.push_back(std::make_unique<Line>(*backend, i + 1, 20, options[i]));
  Counted fast(*network);
  EXPECT_EQ(guesses_of(fast, lines, {2, 2, 4}), guesses_of(slow, lines, {2, 2, 4}));
  EXPECT_EQ(fast.chains, 3);  // two steps of all, and the last two of the third by themselves
  EXPECT_EQ(fast.steps, 4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaChainOf, test::pair_kinds(), test::pair_name);

}  // namespace
}  // namespace slip::backend::cuda
