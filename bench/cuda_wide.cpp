// `cuda_products wide`: the products of wide passes, by warps and by warpgroups.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/kernels/wide_job.h"
#include "base/noise.h"
#include "cuda_bench.h"

namespace slip::backend::cuda {
namespace {

/// Wide products alone and with their staging.
class WideBench {
 public:
  explicit WideBench(Gpu& gpu, const DeviceMemory& weights) : gpu_(gpu), weights_(weights) {
    std::vector<float> noise(1 << 20);
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>(keyed_uniform(4, i)) - 0.5f;
    for (size_t at = 0; at + noise.size() * 4 <= rows_.size(); at += noise.size() * 4)
      gpu.to_device(rows_.data() + at, noise.data(), noise.size() * 4);
    gpu.finish();
    prepare_wide(gpu);
    choose();
  }

  /// TFLOPS are those of the tensor cores, which multiply with the high and the low parts of every row.
  void time(const Case& one, Format format, WideWorkers workers) {
    PackedMatrix packed = shape(one, format);
    packed.data = weights_.data();
    const bool stack = one.experts > 1, by_pair = stack && !one.pair;
    WideStage stage;
    stage.rows = by_pair ? kPairs : kRows;
    stage.in.rows = reinterpret_cast<const float*>(rows_.data());
    stage.in.stride = one.cols;
    stage.in.cols = packed.cols;
    stage.in.epsilon = 1e-6f;
    stage.normed = one.slices == 1 && !by_pair;
    stage.targets = 1;
    stage.target[0].layout = {packed.format, packed.groups};
    stage.target[0].workers = workers;
    stage.target[0].pieces = packed.pieces;
    stage.target[0].slices = packed.slices;
    stage.target[0].staged = staged_.data();
    stage.target[0].row_bytes = staged_bytes(packed);
    stage.factors = reinterpret_cast<float*>(factors_.data());
    WideProduct job;
    job.matrix = packed;
    job.workers = workers;
    job.rows = kRows;
    job.staged = staged_.data();
    job.row_bytes = staged_bytes(packed);
    job.factors = stage.normed ? stage.factors : nullptr;
    job.epilogue = one.pair ? Epilogue::kGated : Epilogue::kStore;
    job.out = reinterpret_cast<float*>(out_.data());
    job.out_stride = one.rows;
    job.slice_stride = int64_t{kRows} * one.rows;
    job.choices = route_.choices;
    if (stack && !by_pair) job.pairs_per_row = kChosen;
    const double staging = best(stage), product = best(job);
    const double flops = 4.0 * (stack ? kPairs : kRows) * one.rows * one.cols * (one.pair ? 2 : 1);
    job.skipped = kSkipStream;
    const double multiplied = best(job);
    job.skipped = kSkipMultiply;
    const double streamed = best(job);
    fmt::print("{:16} {:11} {:8.1f} ({:5.1f}) [multiply {:8.1f}, stream {:8.1f}] {:6.1f}\n", one.name,
               workers == WideWorkers::kSingle ? "warps" : "warpgroups", product * 1e6,
               flops / product * 1e-12, multiplied * 1e6, streamed * 1e6, staging * 1e6);
  }

  void time_route() { fmt::print("choosing experts: {:.1f} us\n", best(route_) * 1e6); }

 private:
  static constexpr int kRows = 1024, kExperts = 128, kChosen = 8, kPairs = kRows * kChosen;

  template <typename Work>
  double best(const Work& work) {
    constexpr int kTimes = 10;
    double seconds = 1;
    for (int i = 0; i < 3; ++i) {
      gpu_.mark(0);
      for (int j = 0; j < kTimes; ++j) start(gpu_, work);
      gpu_.mark(1);
      gpu_.finish();
      seconds = std::min(seconds, gpu_.seconds_between(0, 1) / kTimes);
    }
    return seconds;
  }

  /// Rows choose experts by noise.
  void choose() {
    auto* at = lists_.data();
    const auto take = [&](size_t bytes) {
      auto* from = at;
      at += (bytes + 255) / 256 * 256;
      return from;
    };
    route_.rows = kRows;
    route_.experts = kExperts;
    route_.chosen = kChosen;
    route_.scores = reinterpret_cast<const float*>(rows_.data());
    route_.stride = kExperts;
    route_.expert_scale = route_.scores;
    WideChoices& choices = route_.choices;
    choices.pairs = reinterpret_cast<int*>(take(kPairs * sizeof(int)));
    choices.experts = reinterpret_cast<int*>(take(kPairs * sizeof(int)));
    choices.shares = reinterpret_cast<float*>(take(kPairs * sizeof(float)));
    choices.counts = reinterpret_cast<int*>(take(kExperts * sizeof(int)));
    choices.tile_count = reinterpret_cast<int*>(take(sizeof(int)));
    choices.most_tiles = kPairs / kWideTokens + kExperts;
    choices.tiles =
        reinterpret_cast<WideTile*>(take(static_cast<size_t>(choices.most_tiles) * sizeof(WideTile)));
    start(gpu_, route_);
    gpu_.finish();
  }

  Gpu& gpu_;
  const DeviceMemory& weights_;
  DeviceMemory rows_{size_t{kRows} * 21504 * sizeof(float), "rows"};
  DeviceMemory staged_{size_t{kRows} * 21504 * 5, "staged rows"};
  DeviceMemory out_{size_t{kRows} * 21504 * sizeof(float) * 4, "out"};
  DeviceMemory factors_{kRows * sizeof(float), "factors"};
  DeviceMemory lists_{size_t{1} << 20, "lists"};
  WideRoute route_;
};

}  // namespace

void time_wide(Gpu& gpu, const DeviceMemory& weights) {
  const Case cases[] = {{"26b qkv", 8192, 2816, false},
                        {"26b o", 2816, 4096, false, 2},
                        {"26b gate up", 2112, 2816, true},
                        {"26b down", 2816, 2112, false},
                        {"26b experts up", 704, 2816, true, 1, 128},
                        {"26b experts down", 2816, 704, false, 1, 128},
                        {"31b gate up", 21504, 5376, true},
                        {"31b down", 5376, 21504, false, 4}};
  WideBench bench(gpu, weights);
  bench.time_route();
  for (const Format format : {Format::kAffine4, Format::kBf16}) {
    fmt::print("\n1024 rows, {}: us per product (TFLOPS) [its parts alone], us of staging\n",
               format == Format::kAffine4 ? "4 bits" : "bf16");
    for (const Case& one : cases) {
      for (const WideWorkers workers : {WideWorkers::kSingle, WideWorkers::kGroups})
        bench.time(one, format, workers);
    }
  }
}

}  // namespace slip::backend::cuda
