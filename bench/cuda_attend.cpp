// `cuda_products attend`: attention of steps, and where its time goes.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cuda_bench.h"

namespace slip::backend::cuda {
namespace {

/// One sequence whose pages all are the same one, or few, of the memory given.
std::vector<std::byte> attend_step(const Heads& shape, int context, int width, std::byte* pages,
                                   size_t page_bytes, int page_count) {
  const int needed = (context + width) / 256 + 1, kind = shape.window > 0 ? 0 : 1;
  std::vector<std::byte> state(sizeof(Step) + static_cast<size_t>(needed) * sizeof(std::byte*));
  auto& step = *reinterpret_cast<Step*>(state.data());
  step.rows = width;
  step.groups = 1;
  for (int n = 0; n < width; ++n) {
    StepRow& row = step.row[n];
    row.position = context + n;
    row.end[kind] = row.position + 1;
    row.first[kind] = shape.window > 0 ? std::max(0, row.end[kind] - shape.window) : 0;
  }
  RowGroup& group = step.group[0];
  group.count = width;
  group.first_key[kind] = step.row[0].first[kind];
  group.end_key[kind] = step.row[width - 1].end[kind];
  for (int i = 0; i < needed; ++i) step.pages[i] = pages + static_cast<size_t>(i % page_count) * page_bytes;
  return state;
}

}  // namespace

/// Attention alone: layers whose caches together are larger than the second-level cache. Marks are cycles
/// from the start of the phase, on average over blocks that had keys and for the slowest block.
void time_attend(Gpu& gpu, const DeviceMemory& memory, const DeviceMemory& floats) {
  const Heads shapes[] = {
      {"e2b sliding", 256, 8, 1, 128, 512, false},    {"e2b full", 512, 8, 1, 64, 0, false},
      {"26b sliding", 256, 16, 8, 128, 1024, false},  {"26b full", 512, 16, 2, 64, 0, true},
      {"31b sliding", 256, 32, 16, 128, 1024, false}, {"31b full", 512, 32, 4, 64, 0, true}};
  constexpr int kLayers = 24;
  const int blocks = gpu.info().processors;
  const auto* rows = reinterpret_cast<const float*>(floats.data());
  DeviceMemory partials(size_t{192} << 20, "partials"), weights(size_t{8} << 20, "weights"),
      out(size_t{4} << 20, "out"), device_step(size_t{64} << 10, "step"),
      clocks(static_cast<size_t>(kLayers * blocks * kAttendMarks) * sizeof(long long), "clocks");
  const char* names[] = {"queries", "keys", "scores", "weights", "values", "stored", "end"};
  fmt::print(
      "\nattention: us of the phase, of merging; cycles since the start (average / slowest) at the last "
      "tile's\n");
  for (const int context : {1024, 8192, 32768, 131072}) {
    for (const Heads& shape : shapes) {
      if (shape.window > 0 && context > 1024) continue;
      for (const int width : {1, 4}) {
        const auto page = shape.page_bytes();
        const size_t layer_bytes = std::min<size_t>(page * static_cast<size_t>(context / 256 + 1), 96 << 20);
        const auto layer_pages = static_cast<int>(layer_bytes / page);
        const auto state = attend_step(shape, context, width, memory.data(), page, layer_pages);
        gpu.to_device(device_step.data(), state.data(), state.size());
        gpu.clear(clocks.data(), clocks.size());
        StepList list;
        for (int layer = 0; layer < kLayers; ++layer) {
          AttendJob job;
          job.own = shape.job(reinterpret_cast<const Step*>(device_step.data()), width, rows);
          job.own.stores = true;
          job.own.cache.page_offset = static_cast<int64_t>(layer_bytes) * layer;
          job.own.q_norm = rows + layer * 8192;
          job.own.k_norm = rows + layer * 8192 + 4096;
          job.own.query = const_cast<float*>(rows) + (1 << 20);
          job.own.key = rows + (1 << 21);
          job.own.value = rows + (1 << 21) + (1 << 20);
          job.sliding = shape.window > 0;
          job.k_norm = job.own.k_norm;
          job.most_blocks = KeyBlocks::of(job.sliding, context + width) + 1;
          job.partials = reinterpret_cast<float*>(partials.data());
          job.weights = reinterpret_cast<float*>(weights.data());
          job.out = reinterpret_cast<float*>(out.data());
          job.out_stride = shape.heads * shape.dim;
          job.clocks = reinterpret_cast<long long*>(clocks.data()) + layer * blocks * kAttendMarks;
          list.add(StepKind::kAttend, job, 0);
          job.merges = true;
          list.add(StepKind::kAttend, job, 1);
        }
        list.finish(gpu, width);
        best_of(gpu, list, kSkipNothing, reinterpret_cast<const Step*>(device_step.data()));
        double seconds[2] = {};
        for (const auto& timing : list.timings(gpu)) seconds[timing.mark] += timing.seconds / kLayers;
        std::vector<long long> at(clocks.size() / sizeof(long long));
        gpu.to_host(at.data(), clocks.data(), clocks.size());
        gpu.finish();
        fmt::print("{:12} {:6} width {} {:7.2f} {:6.2f} us ", shape.name, context, width, seconds[0] * 1e6,
                   seconds[1] * 1e6);
        for (int mark = 1; mark < kAttendMarks; ++mark) {
          double sum = 0, slowest = 0;
          int count = 0;
          for (int i = blocks; i < kLayers * blocks; ++i) {  // the first layer is not like the others
            const long long* marks = &at[static_cast<size_t>(i * kAttendMarks)];
            if (marks[1] == 0) continue;
            sum += static_cast<double>(marks[mark] - marks[0]);
            slowest = std::max(slowest, static_cast<double>(marks[mark] - marks[0]));
            ++count;
          }
          fmt::print(" {} {:.0f} / {:.0f}", names[mark - 1], sum / std::max(1, count), slowest);
        }
        fmt::print("\n");
      }
    }
  }
}

}  // namespace slip::backend::cuda
