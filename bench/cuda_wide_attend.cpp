// `cuda_products wide_attend`: attention of wide passes, at depths that prompts reach.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/kernels/wide_job.h"
#include "cuda_bench.h"

namespace slip::backend::cuda {
namespace {

class WideAttendBench {
 public:
  /// `cache` stands for pages, `floats` for norms and rotations; both hold noise.
  WideAttendBench(Gpu& gpu, const DeviceMemory& cache, const DeviceMemory& floats)
      : gpu_(gpu), cache_(cache), floats_(floats) {
    std::vector<float> noise(1 << 20);
    gpu.to_host(noise.data(), floats.data(), noise.size() * sizeof(float));
    gpu.finish();
    for (size_t at = 0; at < query_.size(); at += noise.size() * sizeof(float))
      gpu.to_device(query_.data() + at, noise.data(), noise.size() * sizeof(float));
    gpu.finish();
  }

  /// TFLOPS are those of scores and values with both parts of queries and weights; what rebuilds keys from
  /// K = V and multiplies with keys that nobody sees comes on top.
  void time(const Heads& shape, int depth) {
    const WideAttend job = job_of(shape, depth);
    double seconds = 10;
    for (int i = 0; i < 3; ++i) {
      gpu_.mark(0);
      start(gpu_, job);
      gpu_.mark(1);
      gpu_.finish();
      seconds = std::min(seconds, gpu_.seconds_between(0, 1));
    }
    double seen = 0;
    for (const StepRow& row : rows_) seen += row.end[kind(shape)] - row.first[kind(shape)];
    const double flops = seen * shape.heads * shape.dim * 8;
    fmt::print("{:12} {:7} {:10.1f} us {:6.1f} TFLOPS\n", shape.name, depth, seconds * 1e6,
               flops / seconds * 1e-12);
  }

 private:
  static constexpr int kRows = 2048, kMostCols = 32 * 512, kMostPages = 1024;

  static int kind(const Heads& shape) { return shape.window > 0 ? 0 : 1; }

  WideAttend job_of(const Heads& shape, int depth) {
    const auto page = shape.page_bytes();
    describe_rows(shape, depth, page);
    const auto* rows = reinterpret_cast<const float*>(floats_.data());
    const int cols = shape.heads * shape.dim, share = shape.heads / shape.kv_heads;
    const int at_once = wide_attend_queries(shape.dim);
    WideAttend wide;
    wide.job.own = shape.job(reinterpret_cast<const Step*>(step_.data()), kRows, rows);
    wide.job.own.query = reinterpret_cast<float*>(query_.data());
    wide.job.sliding = shape.window > 0;
    wide.job.k_norm = rows;
    wide.job.out = reinterpret_cast<float*>(out_.data());
    wide.job.out_stride = cols;
    wide.rows = {.rows = kRows,
                 .groups = 1,
                 .row = reinterpret_cast<const StepRow*>(device_rows_.data()),
                 .group = reinterpret_cast<const RowGroup*>(device_group_.data())};
    wide.units = (kRows * share + at_once - 1) / at_once * shape.kv_heads;
    return wide;
  }

  /// One sequence, at its pages one after another.
  void describe_rows(const Heads& shape, int depth, size_t page) {
    rows_.clear();
    for (int n = 0; n < kRows; ++n) {
      StepRow row{.position = depth + n, .group = 0, .first = {}, .end = {}};
      row.end[kind(shape)] = row.position + 1;
      row.first[kind(shape)] = shape.window > 0 ? std::max(0, row.position + 1 - shape.window) : 0;
      rows_.push_back(row);
    }
    const RowGroup group{.first = 0, .count = kRows, .pages = {}, .first_key = {}, .end_key = {}};
    std::vector<std::byte> state(sizeof(Step) + kMostPages * sizeof(std::byte*));
    auto& step = *reinterpret_cast<Step*>(state.data());
    const size_t there = cache_.size() / page;
    for (size_t i = 0; i < kMostPages; ++i) step.pages[i] = cache_.data() + i % there * page;
    gpu_.to_device(step_.data(), state.data(), state.size());
    gpu_.to_device(device_rows_.data(), rows_.data(), rows_.size() * sizeof(StepRow));
    gpu_.to_device(device_group_.data(), &group, sizeof(group));
    gpu_.finish();
  }

  Gpu& gpu_;
  const DeviceMemory& cache_;
  const DeviceMemory& floats_;
  std::vector<StepRow> rows_;
  DeviceMemory query_{size_t{kRows} * kMostCols * sizeof(float), "queries"};
  DeviceMemory out_{size_t{kRows} * kMostCols * sizeof(float), "out"};
  DeviceMemory step_{sizeof(Step) + kMostPages * sizeof(std::byte*), "a step"};
  DeviceMemory device_rows_{kRows * sizeof(StepRow), "rows"};
  DeviceMemory device_group_{sizeof(RowGroup), "a group"};
};

}  // namespace

void time_wide_attend(Gpu& gpu, const DeviceMemory& cache, const DeviceMemory& floats) {
  const Heads shapes[] = {{"31b full", 512, 32, 4, 64, 0, true},
                          {"31b sliding", 256, 32, 16, 128, 1024, false},
                          {"26b full", 512, 16, 2, 64, 0, true},
                          {"e2b full", 512, 8, 1, 64, 0, false}};
  WideAttendBench bench(gpu, cache, floats);
  fmt::print("\nattention of a pass of 2048 rows, per layer and position of the first row\n");
  for (const Heads& shape : shapes) {
    for (const int depth : {0, 2048, 32768, 129024}) {
      if (shape.window == 0 || depth <= 2048) bench.time(shape, depth);
    }
  }
}

}  // namespace slip::backend::cuda
