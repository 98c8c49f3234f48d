// Attention of steps, with the head sizes of real models: what it computes, and that a row has the same bits
// whatever is computed with it. The step's own keys come where tiles, blocks of keys and pages begin and end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cuda/kernels/phase.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

struct Shape {
  const char* name;
  int dim, heads, kv_heads, pairs, window;  // window 0: a full layer
  bool k_is_v;
  int position;  // of the first row
};
// Enough that a block of threads of a large GPU has keys for two teams, and several tiles of a window.
#ifdef SLIP_CUDA_EMULATED
constexpr int kTeamKvHeads = 1, kWindowKvHeads = 1;
#else
constexpr int kTeamKvHeads = 8, kWindowKvHeads = 24;
#endif
const Shape kShapes[] = {
    {"sliding_256_two_heads", 256, 4, 2, 128, 70, false, 120},
    {"sliding_256_eight_heads", 256, 8, 1, 128, 64, false, 250},
    {"sliding_256_long", 256, 2 * kWindowKvHeads, kWindowKvHeads, 128, 1024, false, 1500},
    {"sliding_128", 128, 3, 1, 64, 200, false, 490},
    {"sliding_64", 64, 4, 2, 32, 100, false, 250},
    {"sliding_32", 32, 2, 1, 16, 100, false, 40},
    {"sliding_16", 16, 2, 2, 8, 70, false, 0},
    {"full_512", 512, 8, 1, 64, 0, false, 27},
    {"full_512_one_vector", 512, 8, 1, 64, 0, true, 60},
    {"full_512_one_vector_in_teams", 512, 8 * kTeamKvHeads, kTeamKvHeads, 64, 0, true, 2300},
    {"full_64_one_vector_padded", 64, 6, 2, 5, 0, true, 31},
    {"full_128_across_block_sizes", 128, 2, 1, 16, 0, false, 2040},
    {"full_32_three_heads", 32, 3, 1, 8, 0, false, 1},
    {"full_64_many_kv_heads", 64, 16, 16, 8, 0, false, 9},
    {"full_16", 16, 2, 2, 2, 0, false, 0},
};
constexpr int kPage = 256, kPages = 12, kBlocks = 96;

using test::floats;
using test::noise;
float bf16_value(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// Rows [first, first + count) of the inputs, at consecutive positions of one sequence.
struct Rows {
  int sequence, first, count;
};

class CudaAttention : public test::GpuTest, public testing::WithParamInterface<Shape> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const auto dim = static_cast<size_t>(shape_.dim);
    page_values_ = static_cast<size_t>((shape_.k_is_v ? 1 : 2) * shape_.kv_heads * kPage * shape_.dim);
    content_.resize(2 * kPages * page_values_);
    for (size_t i = 0; i < content_.size(); ++i) {
      uint32_t bits;
      const float value = test::noise(3, i);
      std::memcpy(&bits, &value, 4);
      content_[i] = static_cast<uint16_t>(bits >> 16);
    }
    cache_ = DeviceMemory(content_.size() * 2, "cache");
    const auto pairs = static_cast<size_t>(shape_.pairs);
    turn_page_ = upload(turns(pairs, kPage, 1));
    turn_base_ = upload(turns(pairs, kPages, kPage));
    q_norm_ = upload(q_norm_values_ = noise(6, dim, 0.2f));
    k_norm_ = upload(k_norm_values_ = noise(7, dim, 1));
    query_ = upload(query_values_ = noise(8, kMaxRows * static_cast<size_t>(cols()), 1));
    key_ = upload(noise(9, kMaxRows * static_cast<size_t>(kv_cols()), 1));
    value_ = upload(noise(10, kMaxRows * static_cast<size_t>(kv_cols()), 1));
    partials_ = upload(std::vector<float>(size_t{kBlocks} * kMaxRows * static_cast<size_t>(cols())));
    weights_ = upload(std::vector<float>(size_t{kBlocks} * kMaxRows * 2 * static_cast<size_t>(shape_.heads)));
    out_ = upload(std::vector<float>(kMaxRows * static_cast<size_t>(cols())));
    restore();
  }

  int cols() const { return shape_.heads * shape_.dim; }
  int kv_cols() const { return shape_.kv_heads * shape_.dim; }
  DeviceMemory upload(const std::vector<float>& values) { return test::upload(gpu(), values); }
  static std::vector<float> turns(size_t pairs, int count, int stride) {
    std::vector<float> table;
    for (int i = 0; i < count; ++i) {
      for (size_t pair = 0; pair < pairs; ++pair) {
        const double angle = i * stride / std::pow(100.0, static_cast<double>(pair) / 8);
        table.push_back(static_cast<float>(std::cos(angle)));
        table.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    return table;
  }
  /// The cache as it was before any step.
  void restore() {
    gpu().to_device(cache_.data(), reinterpret_cast<const std::byte*>(content_.data()), cache_.size());
    gpu().finish();
  }
  std::vector<uint16_t> cache() {
    std::vector<uint16_t> values(content_.size());
    gpu().to_host(reinterpret_cast<std::byte*>(values.data()), cache_.data(), cache_.size());
    gpu().finish();
    return values;
  }
  int first_key(int position) const {
    return shape_.window > 0 ? std::max(0, position + 1 - shape_.window) : 0;
  }

  /// One step; returns all rows, those not in it as they were.
  std::vector<float> step(const std::vector<Rows>& all) {
    const int kind = shape_.window > 0 ? 0 : 1;
    std::vector<std::byte> state(sizeof(Step) + 2 * kPages * sizeof(std::byte*));
    auto& step = *reinterpret_cast<Step*>(state.data());
    for (int i = 0; i < 2 * kPages; ++i) step.pages[i] = page(i);
    const int first = all.front().first;
    for (const Rows& rows : all) {
      RowGroup& group = step.group[step.groups];
      group = {.first = rows.first - first,
               .count = rows.count,
               .pages = {rows.sequence * kPages, rows.sequence * kPages},
               .first_key = {},
               .end_key = {}};
      for (int n = rows.first; n < rows.first + rows.count; ++n) {
        StepRow& row = step.row[step.rows++];
        row.position = shape_.position + n;
        row.group = step.groups;
        row.first[kind] = first_key(row.position);
        row.end[kind] = row.position + 1;
      }
      group.first_key[kind] = first_key(shape_.position + rows.first);
      group.end_key[kind] = shape_.position + rows.first + rows.count;
      ++step.groups;
    }
    const DeviceMemory device_step(state.size(), "step");
    gpu().to_device(const_cast<std::byte*>(device_step.data()), state.data(), state.size());
    AttendJob job = describe(reinterpret_cast<const Step*>(device_step.data()), step.rows, first);
    StepList list;
    list.add(StepKind::kAttend, job, 0);
    list.add(StepKind::kAttend, job, 0);  // another layer of the kind
    job.merges = true;
    list.add(StepKind::kAttend, job, 0);
    list.finish(gpu(), step.rows);
    list.start(gpu(), job.own.step);
    gpu().finish();
    return test::download(gpu(), out_, kMaxRows * static_cast<size_t>(cols()));
  }

  /// In double precision: the row after steps of one row each up to its own, head by head.
  std::vector<double> reference(int n, const std::vector<uint16_t>& cache) const {
    const int position = shape_.position + n, dim = shape_.dim, share = shape_.heads / shape_.kv_heads;
    std::vector<double> out;
    for (int head = 0; head < shape_.heads; ++head) {
      const float* from = &query_values_[static_cast<size_t>(n * cols() + head * dim)];
      std::vector<double> query(from, from + dim), sum(static_cast<size_t>(dim));
      double squares = 0;
      for (const double x : query) squares += x * x;
      for (size_t i = 0; i < query.size(); ++i)
        query[i] *= static_cast<double>(q_norm_values_[i]) / std::sqrt(squares / dim + 1e-6);
      turn(query, position);
      std::vector<double> scores;
      for (int at = first_key(position); at <= position; ++at) {
        std::vector<double> key = cached(cache, 0, head / share, at);
        if (shape_.k_is_v) {
          for (size_t i = 0; i < key.size(); ++i) key[i] *= static_cast<double>(k_norm_values_[i]);
          turn(key, at);
        }
        scores.push_back(0);
        for (size_t i = 0; i < key.size(); ++i) scores.back() += query[i] * key[i];
      }
      const double most = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (size_t k = 0; k < scores.size(); ++k) {
        const double weight = std::exp(scores[k] - most);
        total += weight;
        const auto value =
            cached(cache, shape_.k_is_v ? 0 : 1, head / share, first_key(position) + static_cast<int>(k));
        for (size_t i = 0; i < value.size(); ++i) sum[i] += weight * value[i];
      }
      for (const double x : sum) out.push_back(x / total);
    }
    return out;
  }

  const Shape& shape_ = GetParam();

 private:
  std::byte* page(int index) { return cache_.data() + static_cast<size_t>(index) * page_values_ * 2; }
  std::vector<double> cached(const std::vector<uint16_t>& cache, int part, int kv_head, int position) const {
    const auto at =
        static_cast<size_t>(position / kPage) * page_values_ +
        static_cast<size_t>(((part * shape_.kv_heads + kv_head) * kPage + position % kPage) * shape_.dim);
    std::vector<double> values;
    for (size_t i = 0; i < static_cast<size_t>(shape_.dim); ++i)
      values.push_back(static_cast<double>(bf16_value(cache[at + i])));
    return values;
  }
  void turn(std::vector<double>& head, int position) const {
    const auto pairs = static_cast<size_t>(shape_.pairs), half = head.size() / 2;
    for (size_t pair = 0; pair < pairs; ++pair) {
      const double angle = position / std::pow(100.0, static_cast<double>(pair) / 8);
      const double x = head[pair], y = head[pair + half];
      head[pair] = x * std::cos(angle) - y * std::sin(angle);
      head[pair + half] = y * std::cos(angle) + x * std::sin(angle);
    }
  }
  AttendJob describe(const Step* step, int rows, int first) {
    AttendJob job;
    job.own = {.step = step,
               .rows = rows,
               .heads = shape_.heads,
               .stores = true,
               .v_norm = true,
               .epsilon = 1e-6f,
               .cache = {.sliding = shape_.window > 0,
                         .k_is_v = shape_.k_is_v,
                         .kv_heads = shape_.kv_heads,
                         .head_dim = shape_.dim,
                         .element_bytes = 2,
                         .page_offset = 0},
               .head_dim = shape_.dim,
               .turns = {floats(turn_page_), floats(turn_base_), shape_.pairs},
               .q_norm = floats(q_norm_),
               .k_norm = floats(k_norm_),
               .query = const_cast<float*>(floats(query_)) + first * cols(),
               .key = floats(key_) + first * kv_cols(),
               .value = floats(value_) + first * kv_cols(),
               .query_stride = cols(),
               .kv_stride = kv_cols()};
    job.sliding = shape_.window > 0;
    job.k_norm = job.own.k_norm;
    job.most_blocks = kBlocks;
    job.team_keys = 64;
    job.partials = reinterpret_cast<float*>(partials_.data());
    job.weights = reinterpret_cast<float*>(weights_.data());
    job.out = reinterpret_cast<float*>(out_.data()) + first * cols();
    job.out_stride = cols();
    return job;
  }

  size_t page_values_ = 0;
  std::vector<uint16_t> content_;
  std::vector<float> q_norm_values_, k_norm_values_, query_values_;
  DeviceMemory cache_, turn_page_, turn_base_, q_norm_, k_norm_, query_, key_, value_, partials_, weights_,
      out_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttention, testing::ValuesIn(kShapes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(CudaAttention, GivesARowTheSameBitsAtEveryWidth) {
  for (int n = 0; n < kMaxRows; ++n) step({{0, n, 1}});
  const auto want = step({{0, kMaxRows - 1, 1}});
  const auto want_cache = cache();
  for (int n = 0; n < kMaxRows; n += 5) {
    const auto reference = this->reference(n, want_cache);
    for (size_t i = 0; i < reference.size(); ++i)
      ASSERT_NEAR(want[static_cast<size_t>(n * cols()) + i], reference[i], 2e-3)
          << "row " << n << " at " << i;
  }
  for (int width = 2; width <= kMaxRows; ++width) {
    restore();
    for (int first = 0; first < kMaxRows; first += width) {
      const int count = std::min(width, kMaxRows - first);
      const auto got = step({{0, first, count}});
      const auto at = static_cast<size_t>(first * cols());
      ASSERT_EQ(std::memcmp(&got[at], &want[at], static_cast<size_t>(count * cols()) * 4), 0)
          << count << " rows from " << first;
    }
    ASSERT_EQ(cache(), want_cache) << width << " rows at a time";
  }
}

TEST_P(CudaAttention, GivesARowTheSameBitsBesideAnotherSequence) {
  for (int n = 0; n < 7; ++n) step({{0, n, 1}});
  for (int n = 7; n < kMaxRows; ++n) step({{1, n, 1}});
  const auto want = step({{1, kMaxRows - 1, 1}});
  const auto want_cache = cache();
  restore();
  EXPECT_EQ(step({{0, 0, 7}, {1, 7, kMaxRows - 7}}), want);
  EXPECT_EQ(cache(), want_cache);
}

}  // namespace
}  // namespace slip::backend::cuda
