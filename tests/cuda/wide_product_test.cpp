// Wide products against narrow ones: the same bits for every row, in every format.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>
#include <tuple>

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/wide_job.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

using tensor::DType;
using test::OwnedMatrix;

struct MatrixKind {
  const char* name;
  int bits, group;
  RowsAs rows_as = RowsAs::kPairs;
};
void PrintTo(const MatrixKind& kind, std::ostream* to) {
  *to << kind.name;
}
const MatrixKind kKinds[] = {
    {"bf16", 16, 1},
    {"affine4_group_32", 4, 32},
    {"affine4_group_64", 4, 64},
    {"affine4_group_128", 4, 128},
    {"affine8_group_32", 8, 32},
    {"affine8_group_64", 8, 64},
    {"affine8_group_128", 8, 128},
    {"affine4_group_32_halves", 4, 32, RowsAs::kHalves},
    {"affine4_group_64_halves", 4, 64, RowsAs::kHalves},
    {"affine8_group_32_halves", 8, 32, RowsAs::kHalves},
    {"affine8_group_64_halves", 8, 64, RowsAs::kHalves},
};

OwnedMatrix make(const MatrixKind& kind, int64_t rows, int64_t cols, uint64_t seed) {
  return kind.bits == 16 ? test::random_float_matrix(DType::kBf16, rows, cols, seed)
                         : test::random_affine_matrix(kind.bits, kind.group, DType::kBf16, rows, cols, seed);
}

/// A matrix, rows that are a stream plus a normed branch, and both products of them.
class Subject {
 public:
  Subject(Gpu& gpu, const MatrixKind& kind, int64_t rows, int64_t cols, bool pair, int count, bool sliced)
      : gpu_(gpu), count_(count), cols_(static_cast<int>(cols)), stride_((cols + 3) / 4 * 4) {
    const OwnedMatrix source = make(kind, rows, cols, 11), up = make(kind, rows, cols, 12);
    if (sliced) {
      packed_ = plan_sliced(source.matrix, kind.rows_as);
      std::vector<std::byte> host(packed_.bytes());
      ThreadPool pool(2);
      pack(source.matrix, nullptr, packed_, 0, int64_t{packed_.tiles} * packed_.slices, host.data(), pool);
      memory_ = DeviceMemory(host.size(), "weights");
      gpu.to_device(memory_.data(), host.data(), host.size());
      gpu.finish();
      packed_.data = memory_.data();
    } else {
      packed_ =
          test::upload_matrix(gpu, source.matrix, rows, pair ? &up.matrix : nullptr, memory_, kind.rows_as);
    }
    stream_ = noise(23);
    branch_ = noise(24);
    norm_ = noise(25);
    other_norm_ = noise(26);
    out_ =
        DeviceMemory(static_cast<size_t>(count * packed_.rows * packed_.slices) * sizeof(float), "results");
    kept_ = DeviceMemory(static_cast<size_t>(count * stride_) * sizeof(float), "kept");
    factors_ = DeviceMemory(static_cast<size_t>(count) * sizeof(float), "factors");
  }

  std::vector<float> narrow(bool normed) {
    for (int first = 0; first < count_; first += kMaxRows) {
      Job job;
      const int rows = std::min(kMaxRows, count_ - first);
      for (int i = 0; i < std::min(packed_.slices, kMaxSegments); ++i) {
        Segment& segment = job.segments[job.segment_count++];
        segment.matrix = packed_.slice(i);
        segment.in = input(normed, first);
        segment.in.rows += int64_t{i} * packed_.cols;
        segment.in.cols = packed_.cols;
        segment.normed = normed;
        segment.norm = normed ? floats(norm_) : nullptr;
        segment.norm_scale = 0.5f;
        segment.epilogue = packed_.pair ? Epilogue::kGated : Epilogue::kStore;
        segment.out = reinterpret_cast<float*>(out_.data()) + (int64_t{i} * count_ + first) * packed_.rows;
        segment.out_stride = packed_.rows;
      }
      StepList list;
      list.add_product(gpu_, job, 1, 0);
      list.finish(gpu_, rows);
      list.start(gpu_, nullptr);
      gpu_.finish();
    }
    return results();
  }

  std::vector<float> wide(bool normed, WideWorkers workers) {
    gpu_.clear(out_.data(), out_.size());
    WideStage stage;
    stage.rows = count_;
    stage.in = input(normed, 0);
    stage.in.cols = packed_.cols;
    stage.normed = normed;
    stage.factors = reinterpret_cast<float*>(factors_.data());
    stage.targets = 1;
    WideTarget& target = stage.target[0];
    target.layout = {packed_.format, packed_.groups};
    target.workers = workers;
    target.pieces = packed_.pieces;
    target.slices = packed_.slices;
    target.norm = normed ? floats(norm_) : nullptr;
    target.norm_scale = 0.5f;
    target.row_bytes = staged_bytes(packed_);
    staged_ = DeviceMemory(static_cast<size_t>(target.row_bytes * count_), "staged");
    target.staged = staged_.data();
    start(gpu_, stage);
    WideProduct job;
    job.matrix = packed_;
    job.workers = workers;
    job.rows = count_;
    job.staged = staged_.data();
    job.row_bytes = target.row_bytes;
    job.factors = normed ? stage.factors : nullptr;
    job.epilogue = packed_.pair ? Epilogue::kGated : Epilogue::kStore;
    job.out = reinterpret_cast<float*>(out_.data());
    job.out_stride = packed_.rows;
    job.slice_stride = int64_t{count_} * packed_.rows;
    start(gpu_, job);
    gpu_.finish();
    return results();
  }

  std::vector<float> kept() const {
    return test::download(gpu_, kept_, static_cast<size_t>(count_ * stride_));
  }
  const PackedMatrix& packed() const { return packed_; }

 private:
  static const float* floats(const DeviceMemory& memory) {
    return reinterpret_cast<const float*>(memory.data());
  }
  DeviceMemory noise(uint64_t seed) const {
    std::vector<float> x(static_cast<size_t>(count_ * stride_), NAN);
    for (int n = 0; n < count_; ++n) {
      for (int c = 0; c < cols_; ++c)
        x[static_cast<size_t>(n * stride_ + c)] = test::noise(seed, static_cast<uint64_t>(n * cols_ + c));
    }
    return test::upload(gpu_, x);
  }
  Input input(bool branch, int first) const {
    Input in;
    in.rows = floats(stream_) + first * stride_;
    in.stride = stride_;
    in.epsilon = 1e-6f;
    if (!branch) return in;
    in.branch = floats(branch_) + first * stride_;
    in.branch_stride = stride_;
    in.branch_norm = floats(other_norm_);
    in.scalar = 0.75f;
    in.keep = reinterpret_cast<float*>(kept_.data()) + first * stride_;
    in.keep_stride = stride_;
    return in;
  }
  std::vector<float> results() const {
    return test::download(gpu_, out_, static_cast<size_t>(count_ * packed_.rows * packed_.slices));
  }

  Gpu& gpu_;
  int count_, cols_;
  int64_t stride_;
  PackedMatrix packed_;
  DeviceMemory memory_, stream_, branch_, norm_, other_norm_, out_, kept_, factors_, staged_;
};

void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(float)) == 0) continue;
    FAIL() << what << ": " << got[i] << " instead of " << want[i] << " at " << i;
  }
}

class CudaWideProduct : public test::GpuTest,
                        public testing::WithParamInterface<std::tuple<MatrixKind, WideWorkers>> {
 protected:
  static const MatrixKind& kind() { return std::get<0>(GetParam()); }
  static WideWorkers workers() { return std::get<1>(GetParam()); }
  void SetUp() override {
    test::GpuTest::SetUp();
    if (!IsSkipped()) prepare_wide(gpu());
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, CudaWideProduct,
                         testing::Combine(testing::ValuesIn(kKinds),
                                          testing::Values(WideWorkers::kSingle, WideWorkers::kGroups)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) == WideWorkers::kSingle ? "_by_warps"
                                                                                   : "_by_warpgroups");
                         });

TEST_P(CudaWideProduct, GivesTheBitsOfTheNarrowOneForOddSizes) {
  for (const int64_t rows : {7, 150}) {
    for (const int64_t blocks : {1, 7}) {
      const int64_t cols = kind().bits == 16 ? blocks * 52 : blocks * kind().group;
      for (const bool pair : {false, true}) {
        Subject subject(gpu(), kind(), rows, cols, pair, rows == 7 ? 70 : 17, false);
        const auto what = std::to_string(rows) + " x " + std::to_string(cols) + (pair ? ", a pair" : "");
        expect_same(subject.wide(false, workers()), subject.narrow(false), what);
        const auto normed = subject.narrow(true), kept = subject.kept();
        expect_same(subject.wide(true, workers()), normed, what + ", normed");
        expect_same(subject.kept(), kept, what + ", kept");
      }
    }
  }
}

TEST_P(CudaWideProduct, AddsThePartsOfLongRowsInTheNarrowOrder) {
  Subject subject(gpu(), kind(), 32, 3072, false, 33, false);
  ASSERT_GT(subject.packed().parts, 4);
  expect_same(subject.wide(true, workers()), subject.narrow(true), "long rows");
  Subject sliced(gpu(), kind(), 16, 8192, false, 18, true);
  ASSERT_EQ(sliced.packed().slices, 4);
  expect_same(sliced.wide(false, workers()), sliced.narrow(false), "slices");
}

/// Every row chooses two of five matrices, the same ones for both kinds of inputs.
class Chosen {
 public:
  static constexpr int kRows = 101, kMatrices = 5, kEach = 2, kPairs = kRows * kEach;

  explicit Chosen(Gpu& gpu) : lists_(1 << 16, "lists") {
    std::vector<float> scores(kRows * kMatrices);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = test::noise(31, i) + (i % kMatrices == 1 ? 3 : 0);
    scores_ = test::upload(gpu, scores);
    const auto at = [&](int kib) { return reinterpret_cast<int*>(lists_.data() + kib * 1024); };
    route_.rows = kRows;
    route_.experts = kMatrices;
    route_.chosen = kEach;
    route_.scores = reinterpret_cast<const float*>(scores_.data());
    route_.stride = kMatrices;
    route_.expert_scale = route_.scores;
    route_.choices.pairs = at(0);
    route_.choices.experts = at(4);
    route_.choices.shares = reinterpret_cast<float*>(at(8));
    route_.choices.counts = at(12);
    route_.choices.tile_count = at(16);
    route_.choices.tiles = reinterpret_cast<WideTile*>(at(20));
    route_.choices.most_tiles = kPairs / kWideTokens + kMatrices;
    start(gpu, route_);
    matrix_of_.resize(kPairs);
    gpu.to_host(matrix_of_.data(), lists_.data() + 4096, kPairs * sizeof(int));
    gpu.finish();
  }

  const WideChoices& choices() const { return route_.choices; }
  int matrix_of(int pair) const { return matrix_of_[static_cast<size_t>(pair)]; }

 private:
  DeviceMemory scores_, lists_;
  WideRoute route_;
  std::vector<int> matrix_of_;
};

/// Products of a stack of matrices with one staged row per `pairs_per_row` pairs.
std::vector<float> multiply_stack(Gpu& gpu, const PackedMatrix& matrix, const Chosen* chosen, int staged_rows,
                                  int outputs, WideWorkers workers) {
  std::vector<float> x(static_cast<size_t>(staged_rows * matrix.cols));
  for (size_t i = 0; i < x.size(); ++i) x[i] = test::noise(33, i);
  const DeviceMemory in = test::upload(gpu, x);
  const DeviceMemory staged(static_cast<size_t>(staged_bytes(matrix) * staged_rows), "staged");
  const DeviceMemory out(static_cast<size_t>(outputs * matrix.rows) * sizeof(float), "out");
  WideStage stage;
  stage.rows = staged_rows;
  stage.in.rows = reinterpret_cast<const float*>(in.data());
  stage.in.stride = stage.in.cols = matrix.cols;
  stage.targets = 1;
  WideTarget& target = stage.target[0];
  target.layout = {matrix.format, matrix.groups};
  target.workers = workers;
  target.pieces = matrix.pieces;
  target.row_bytes = staged_bytes(matrix);
  target.staged = staged.data();
  start(gpu, stage);
  WideProduct job;
  job.matrix = matrix;
  job.workers = workers;
  job.rows = staged_rows;
  job.staged = staged.data();
  job.row_bytes = target.row_bytes;
  job.epilogue = matrix.pair ? Epilogue::kGated : Epilogue::kStore;
  job.out = reinterpret_cast<float*>(out.data());
  job.out_stride = matrix.rows;
  if (chosen != nullptr) job.choices = chosen->choices();
  job.pairs_per_row = outputs / staged_rows;
  start(gpu, job);
  gpu.finish();
  return test::download(gpu, out, static_cast<size_t>(outputs * matrix.rows));
}

TEST_P(CudaWideProduct, GivesPairsOfAStackWhatTheirMatrixGivesAlone) {
  constexpr int64_t kRows = 72, kCols = 384;
  const OwnedMatrix source = make(kind(), kRows * Chosen::kMatrices, kCols, 11),
                    up = make(kind(), kRows * Chosen::kMatrices, kCols, 12);
  const Chosen chosen(gpu());
  for (const bool pair : {false, true}) {
    DeviceMemory memory;
    const PackedMatrix stack =
        test::upload_matrix(gpu(), source.matrix, kRows, pair ? &up.matrix : nullptr, memory, kind().rows_as);
    ASSERT_EQ(stack.count, Chosen::kMatrices);
    for (const int per_row : {1, Chosen::kEach}) {
      const int staged = Chosen::kPairs / per_row;
      const auto got = multiply_stack(gpu(), stack, &chosen, staged, Chosen::kPairs, workers());
      std::vector<std::vector<float>> alone;
      for (int i = 0; i < stack.count; ++i) {
        PackedMatrix one = stack;
        one.count = 1;
        one.data += i * stack.matrix_bytes();
        alone.push_back(multiply_stack(gpu(), one, nullptr, staged, staged, WideWorkers::kSingle));
      }
      for (int p = 0; p < Chosen::kPairs; ++p) {
        const auto* want =
            &alone[static_cast<size_t>(chosen.matrix_of(p))][static_cast<size_t>(p / per_row * kRows)];
        ASSERT_EQ(std::memcmp(&got[static_cast<size_t>(p * kRows)], want, kRows * sizeof(float)), 0)
            << "pair " << p << ", " << per_row << " a row" << (pair ? ", a pair" : "");
      }
    }
  }
}

TEST_P(CudaWideProduct, TakesTallMatricesInWiderTiles) {
  Subject subject(gpu(), kind(), 8200, 128, false, 5, false);
  ASSERT_EQ(subject.packed().subtiles, 2);
  expect_same(subject.wide(false, workers()), subject.narrow(false), "tall");
}

}  // namespace
}  // namespace slip::backend::cuda
