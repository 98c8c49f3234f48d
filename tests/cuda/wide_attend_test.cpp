// Attention of wide passes against the narrow one, with the head sizes of real models: the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/wide_job.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

struct Heads {
  const char* name;
  int dim, heads, kv_heads, pairs;
  bool sliding, k_is_v;
  int first_key;  // of the first row
  int position;   // its own
  int span = 1;   // rows that see one another, as those of an image do
};
const Heads kHeads[] = {
    {"sliding_256", 256, 4, 2, 128, true, false, 37, 130},
    {"sliding_256_spans", 256, 4, 2, 128, true, false, 37, 130, 8},
    {"full_512", 512, 3, 1, 64, false, false, 0, 100},
    {"full_512_spans", 512, 3, 1, 64, false, false, 230, 300, 20},
    {"full_512_one_vector", 512, 8, 1, 64, false, true, 0, 100},
    {"full_512_one_vector_pages", 512, 2, 1, 64, false, true, 200, 480},
    {"full_512_one_vector_far", 512, 2, 1, 64, false, true, 8100, 8500, 16},
    {"full_256_one_vector", 256, 4, 2, 32, false, true, 3, 100},
    {"full_64_one_vector_padded", 64, 2, 2, 5, false, true, 0, 70},
    {"full_128_far", 128, 2, 1, 16, false, false, 8000, 8800},
    {"full_64_one_vector_farther", 64, 2, 1, 8, false, true, 32000, 33800},
    {"full_16_farthest", 16, 2, 1, 4, false, false, 130000, 132200},
    {"full_32_many_blocks", 32, 2, 1, 4, false, false, 0, 9000},
};
constexpr int kRows = 37, kPages = 520, kPage = 256, kBlocks = 176;

class CudaWideAttention : public test::GpuTest, public testing::WithParamInterface<Heads> {};
INSTANTIATE_TEST_SUITE_P(Heads, CudaWideAttention, testing::ValuesIn(kHeads),
                         [](const auto& test) { return std::string(test.param.name); });

using test::floats;
using test::noise;

TEST_P(CudaWideAttention, GivesTheBitsOfTheNarrowOne) {
  const Heads& shape = GetParam();
  // One page of random keys and values stands for all.
  const auto page_values = static_cast<size_t>((shape.k_is_v ? 1 : 2) * shape.kv_heads * kPage * shape.dim);
  std::vector<uint16_t> page(page_values);
  for (size_t i = 0; i < page.size(); ++i) {
    uint32_t bits;
    const float value = test::noise(3, i);
    std::memcpy(&bits, &value, 4);
    page[i] = static_cast<uint16_t>(bits >> 16);
  }
  DeviceMemory cache(page.size() * 2, "cache");
  gpu().to_device(cache.data(), page.data(), page.size() * 2);
  const auto pairs = static_cast<size_t>(shape.pairs);
  const DeviceMemory turn_page = test::upload(gpu(), noise(4, kPage * pairs * 2, 1)),
                     turn_base = test::upload(gpu(), noise(5, kPages * pairs * 2, 1)),
                     q_norm = test::upload(gpu(), noise(6, static_cast<size_t>(shape.dim), 0.2f)),
                     k_norm = test::upload(gpu(), noise(7, static_cast<size_t>(shape.dim), 1));
  const int cols = shape.heads * shape.dim;
  const auto size = static_cast<size_t>(kRows * cols);
  const DeviceMemory query = test::upload(gpu(), noise(8, size, 1)),
                     partials = test::upload(
                         gpu(), std::vector<float>(size_t{kBlocks} * kMaxRows * static_cast<size_t>(cols))),
                     weights = test::upload(gpu(), std::vector<float>(size_t{kBlocks} * kMaxRows * 64)),
                     out = test::upload(gpu(), std::vector<float>(size));

  std::vector<std::byte> state(sizeof(Step) + kPages * sizeof(std::byte*));
  auto& step = *reinterpret_cast<Step*>(state.data());
  for (int i = 0; i < kPages; ++i) step.pages[i] = cache.data();
  DeviceMemory device_step(state.size(), "step");
  std::vector<StepRow> rows;
  const int kind = shape.sliding ? 0 : 1;
  for (int n = 0; n < kRows; ++n) {
    StepRow row{.position = shape.position + n, .group = 0, .first = {}, .end = {}};
    row.first[kind] = shape.sliding ? shape.first_key + n : shape.first_key;
    row.end[kind] = shape.position + (n / shape.span + 1) * shape.span;
    rows.push_back(row);
  }
  AttendJob job;
  job.own = {.step = reinterpret_cast<const Step*>(device_step.data()),
             .rows = 0,
             .heads = shape.heads,
             .stores = false,
             .v_norm = true,
             .epsilon = 1e-6f,
             .cache = {.sliding = shape.sliding,
                       .k_is_v = shape.k_is_v,
                       .kv_heads = shape.kv_heads,
                       .head_dim = shape.dim,
                       .element_bytes = 2,
                       .page_offset = 0},
             .head_dim = shape.dim,
             .turns = {floats(turn_page), floats(turn_base), shape.pairs},
             .q_norm = floats(q_norm),
             .k_norm = nullptr,
             .query = nullptr,
             .key = nullptr,
             .value = nullptr,
             .query_stride = cols,
             .kv_stride = 0};
  job.sliding = shape.sliding;
  job.k_norm = floats(k_norm);
  job.most_blocks = kBlocks;
  job.partials = reinterpret_cast<float*>(partials.data());
  job.weights = reinterpret_cast<float*>(weights.data());
  job.out_stride = cols;

  for (int first = 0; first < kRows; first += kMaxRows) {
    const int count = std::min(kMaxRows, kRows - first);
    RowGroup group{.first = 0, .count = count, .pages = {}, .first_key = {}, .end_key = {}};
    group.first_key[kind] = rows[static_cast<size_t>(first)].first[kind];
    group.end_key[kind] = rows[static_cast<size_t>(first + count - 1)].end[kind];
    step.rows = count;
    step.groups = 1;
    step.group[0] = group;
    for (int n = 0; n < count; ++n) step.row[n] = rows[static_cast<size_t>(first + n)];
    gpu().to_device(device_step.data(), state.data(), state.size());
    job.own.rows = count;
    job.own.query = reinterpret_cast<float*>(query.data()) + first * cols;
    job.out = reinterpret_cast<float*>(out.data()) + first * cols;
    StepList list;
    list.add(StepKind::kAttend, job, 0);
    AttendJob merge = job;
    merge.merges = true;
    list.add(StepKind::kAttend, merge, 0);
    list.finish(gpu(), count);
    list.start(gpu(), job.own.step);
    gpu().finish();
  }
  const auto want = test::download(gpu(), out, size);
  gpu().clear(out.data(), out.size());

  DeviceMemory device_rows(rows.size() * sizeof(StepRow), "rows"), device_group(sizeof(RowGroup), "group");
  const RowGroup group{.first = 0, .count = kRows, .pages = {}, .first_key = {}, .end_key = {}};
  gpu().to_device(device_rows.data(), rows.data(), rows.size() * sizeof(StepRow));
  gpu().to_device(device_group.data(), &group, sizeof(group));
  const WideRows all{.rows = kRows,
                     .groups = 1,
                     .row = reinterpret_cast<const StepRow*>(device_rows.data()),
                     .group = reinterpret_cast<const RowGroup*>(device_group.data())};
  job.own.query = reinterpret_cast<float*>(query.data());
  job.out = reinterpret_cast<float*>(out.data());
  const int share = shape.heads / shape.kv_heads, at_once = wide_attend_queries(shape.dim);
  start(gpu(), WideHeads{.job = job.own, .rows = all});
  start(
      gpu(),
      WideAttend{.job = job, .rows = all, .units = (kRows * share + at_once - 1) / at_once * shape.kv_heads});
  gpu().finish();
  const auto got = test::download(gpu(), out, size);
  for (size_t i = 0; i < size; ++i) {
    ASSERT_TRUE(std::isfinite(want[i])) << i;
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0)
        << got[i] << " instead of " << want[i] << " in row " << i / static_cast<size_t>(cols) << ", column "
        << i % static_cast<size_t>(cols);
  }
}

}  // namespace
}  // namespace slip::backend::cuda
