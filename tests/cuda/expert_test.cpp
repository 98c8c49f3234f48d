// Which experts a step takes for its rows: the best, the lower index first among equal ones, whether there is
// one row or more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/cuda/kernels/phase.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

constexpr int kRows = 40, kCols = 32;  // of an expert: three tiles
constexpr int kStride = 128;           // of rows, with zeros behind their columns

class CudaExperts : public test::GpuTest, public ::testing::WithParamInterface<int> {
 protected:
  /// What expert e gives is e + 1, whatever the row.
  PackedMatrix upload_experts(int experts) {
    test::OwnedMatrix source =
        test::random_float_matrix(tensor::DType::kBf16, int64_t{experts} * kRows, kCols, 1);
    for (int64_t i = 0; i < int64_t{experts} * kRows * kCols; ++i)
      source.weight->set(static_cast<size_t>(i),
                         i % kCols == 0 ? static_cast<float>(i / (kRows * kCols) + 1) : 0.0f);
    return test::upload_matrix(gpu(), source.matrix, kRows, nullptr, weights_);
  }

  struct Given {
    std::vector<float> out, shares;  // [row][slot][kRows], [row][kMaxChosen]
  };
  /// What rows the experts are multiplied with: the same ones for all, or every choice of a row has one of
  /// its own, of ones, twos and so on. Bunched: and what they give is added up, a bunch at a time, of a
  /// single row whose shares a step before has left.
  enum class Rows { kOnes, kOwn, kBunched };
  Given run(const PackedMatrix& packed, int experts, int chosen, const std::vector<float>& scores,
            Rows kind = Rows::kOnes) {
    const bool own_rows = kind != Rows::kOnes;
    const int rows = static_cast<int>(scores.size()) / experts;
    std::vector<float> values(static_cast<size_t>(kMaxRows * chosen * kStride));
    for (int i = 0; i < kMaxRows * chosen * kCols; ++i)
      values[static_cast<size_t>(i / kCols * kStride + i % kCols)] =
          own_rows ? static_cast<float>(i / kCols + 1) : 1.0f;
    const DeviceMemory x = test::upload(gpu(), values);
    const DeviceMemory scores_there = test::upload(gpu(), scores);
    const DeviceMemory scales = test::upload(gpu(), std::vector<float>(static_cast<size_t>(experts), 2.0f));
    DeviceMemory out(static_cast<size_t>(rows * chosen * kRows) * sizeof(float), "results"),
        shares(static_cast<size_t>(kMaxRows * kMaxChosen) * sizeof(float), "shares");
    gpu().clear(out.data(), out.size());
    Job job;
    job.rows = rows;
    job.list_number = 1;
    job.route = {.experts = experts,
                 .chosen = chosen,
                 .scores = reinterpret_cast<const float*>(scores_there.data()),
                 .stride = experts,
                 .expert_scale = reinterpret_cast<const float*>(scales.data()),
                 .shares = reinterpret_cast<float*>(shares.data())};
    job.segment_count = 1;
    Segment& segment = job.segments[0];
    segment.matrix = packed;
    segment.in.rows = reinterpret_cast<const float*>(x.data());
    segment.in.stride = kStride;
    segment.in.cols = kCols;
    segment.in.slots = own_rows ? chosen : 0;
    segment.out = reinterpret_cast<float*>(out.data());
    segment.out_stride = kRows;
    segment.out_slots = chosen;
    StepList list;
    list.add_product(gpu(), job, std::min(experts, rows * chosen), 0);
    if (kind == Rows::kBunched) {
      segment.bunch_shares = job.route.shares;
      list.add_product(gpu(), job, chosen, 0);
    }
    list.finish(gpu(), rows);
    list.start(gpu(), nullptr);
    gpu().finish();
    return {test::download(gpu(), out, static_cast<size_t>(rows * chosen * kRows)),
            test::download(gpu(), shares, static_cast<size_t>(rows * kMaxChosen))};
  }

  /// As the host would choose.
  static std::vector<int> best_of(const float* scores, int experts, int chosen) {
    std::vector<int> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](int e) {
      return std::isnan(scores[e]) ? -std::numeric_limits<float>::infinity() : scores[e];
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return value(a) > value(b); });
    order.resize(static_cast<size_t>(chosen));
    return order;
  }

  DeviceMemory weights_;
};

TEST_P(CudaExperts, AreTheBestAndTheLowerOfEqualOnes) {
  const int experts = GetParam(), chosen = std::min(5, experts);
  constexpr int kMost = 6;
  const PackedMatrix packed = upload_experts(experts);
  // Few different scores, so most are equal to some other; one that is no number, and both zeros.
  std::vector<float> scores;
  for (int i = 0; i < kMost * experts; ++i) scores.push_back(static_cast<float>(i * i % 7) - 3);
  scores[0] = NAN;
  scores[1] = -0.0f;
  for (const int rows : {1, 2, kMost}) {
    for (int first = 0; first < kMost; first += rows) {
      const std::vector<float> some(scores.begin() + first * experts,
                                    scores.begin() + (first + rows) * experts);
      const Given given = run(packed, experts, chosen, some);
      for (int n = 0; n < rows; ++n) {
        const std::vector<int> want = best_of(some.data() + n * experts, experts, chosen);
        double total = 0;
        const auto weight = [&](int slot) {
          return std::exp(static_cast<double>(some[static_cast<size_t>(n * experts + want[slot])]) -
                          some[static_cast<size_t>(n * experts + want[0])]);
        };
        for (int slot = 0; slot < chosen; ++slot) total += weight(slot);
        for (int slot = 0; slot < chosen; ++slot) {
          const auto at = static_cast<size_t>((n * chosen + slot) * kRows);
          EXPECT_EQ(given.out[at], static_cast<float>(want[static_cast<size_t>(slot)] + 1))
              << "row " << first + n << " of " << rows << " at a time, choice " << slot;
          EXPECT_NEAR(given.shares[static_cast<size_t>(n * kMaxChosen + slot)], 2 * weight(slot) / total,
                      1e-6);
        }
      }
    }
  }
}

TEST_P(CudaExperts, MultiplyTheRowsOfTheChoicesThatTheyAre) {
  const int experts = GetParam(), chosen = std::min(5, experts);
  const PackedMatrix packed = upload_experts(experts);
  for (const int rows : {1, 2, 4, 7, kMaxRows}) {
    std::vector<float> scores;
    for (int i = 0; i < rows * experts; ++i) scores.push_back(static_cast<float>(i * 37 % 101));
    const Given given = run(packed, experts, chosen, scores, Rows::kOwn);
    for (int n = 0; n < rows; ++n) {
      const std::vector<int> want = best_of(scores.data() + n * experts, experts, chosen);
      for (int slot = 0; slot < chosen; ++slot) {
        const int which = n * chosen + slot;
        const float* got = &given.out[static_cast<size_t>(which * kRows)];
        for (int r = 0; r < kRows; ++r)
          ASSERT_EQ(got[r], static_cast<float>((want[static_cast<size_t>(slot)] + 1) * (which + 1)))
              << "row " << n << " of " << rows << ", choice " << slot << ", result " << r;
      }
    }
  }
}

TEST_P(CudaExperts, OfASingleRowAreWeightedAndAddedUpInBunches) {
  const int experts = GetParam();
  const PackedMatrix packed = upload_experts(experts);
  std::vector<float> scores;
  for (int i = 0; i < experts; ++i) scores.push_back(static_cast<float>(i * 37 % 101) / 16);
  for (const int chosen : {kBunch, 2 * kBunch, 3 * kBunch}) {
    if (chosen > std::min(experts, gpu().info().processors * kBunch)) continue;
    const Given apart = run(packed, experts, chosen, scores, Rows::kOwn),
                bunched = run(packed, experts, chosen, scores, Rows::kBunched);
    for (int bunch = 0; bunch < chosen / kBunch; ++bunch) {
      for (int r = 0; r < kRows; ++r) {
        float want = 0;
        for (int slot = bunch * kBunch; slot < (bunch + 1) * kBunch; ++slot)
          want = std::fma(apart.shares[static_cast<size_t>(slot)],
                          apart.out[static_cast<size_t>(slot * kRows + r)], want);
        ASSERT_EQ(bunched.out[static_cast<size_t>(bunch * kRows + r)], want)
            << chosen << " experts, bunch " << bunch << ", result " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, CudaExperts, ::testing::Values(8, 33, 128, 200));

}  // namespace
}  // namespace slip::backend::cuda
