// Times the products of the CUDA executor alone, per shape and width: phases of one step over matrices that
// together are several times the second-level cache. At width 1 also what their parts cost alone: staging the
// rows, streaming the weights, multiplying what is already in shared memory. And the picking of tokens.
// `cuda_products quick` times width 1 of 4-bit matrices only, `cuda_products wide` the products of wide
// passes by warps and by warpgroups, `cuda_products tensor` the tensor cores alone, `cuda_products attend`
// attention.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/wide_job.h"
#include "backend/cuda/pack.h"
#include "base/error.h"
#include "base/noise.h"
#include "tensor_rate.h"

namespace slip::backend::cuda {
namespace {

struct Case {
  const char* name;
  int rows, cols;
  bool pair;
  int slices = 1, experts = 1;
};

PackedMatrix shape(const Case& one, Format format) {
  return plan({.format = format,
               .groups = format == Format::kBf16 ? 0 : 1,
               .rows = one.rows,
               .cols = one.cols,
               .pair = one.pair,
               .slices = one.slices,
               .count = one.experts});
}

/// Seconds per phase of a list, the best of some runs.
double best_of(Gpu& gpu, StepList& list, int skipped, const Step* step = nullptr) {
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    list.start(gpu, step, true, skipped);
    gpu.finish();
    best = std::min(best, gpu.seconds_between(0, 1));
  }
  return best / static_cast<double>(list.phases().size());
}

/// What the meeting of all blocks costs.
void time_barrier(Gpu& gpu) {
  StepList list;
  for (int i = 0; i < 500; ++i) list.add_empty(0);
  list.finish(gpu, 1);
  fmt::print("empty phases: {:.2f} us each\n", best_of(gpu, list, kSkipNothing) * 1e6);
}

/// What it costs to pick the best tokens of rows of 262,144 logits, with the meeting before it.
void time_picks(Gpu& gpu) {
  constexpr int kVocab = 262144, kPhases = 50;
  std::vector<float> noise(size_t{kMaxRows} * kVocab);
  for (size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<float>(-3 * std::log(1 / keyed_uniform(3, i) - 1));
  DeviceMemory logits(noise.size() * sizeof(float), "logits"), memory(sizeof(Step), "a step");
  DeviceMemory found(sizeof(Found) * kMaxRows * kMostPickChunks * kMostCandidates, "candidates");
  DeviceMemory counters(2 * kMaxRows * sizeof(uint32_t), "counters");
  PinnedMemory out(sizeof(BestTokens) * kMaxRows, "results");
  gpu.to_device(logits.data(), noise.data(), logits.size());
  gpu.clear(counters.data(), counters.size());
  gpu.finish();
  fmt::print("\nbest tokens of 1, 2, 4, 8, 16 rows, us per phase\n");
  for (const int wanted : {1, 2, 16, 64, 66, 128}) {
    std::string line = fmt::format("best {:3} ", wanted);
    for (const int rows : {1, 2, 4, 8, 16}) {
      Step step = {};
      for (int n = 0; n < rows; ++n) {
        step.best[n] = wanted;
        step.out_rows[n] = n;
      }
      gpu.to_device(memory.data(), &step, sizeof(step));
      gpu.finish();
      auto* zeros = reinterpret_cast<uint32_t*>(counters.data());
      StepList list;
      for (int i = 0; i < kPhases; ++i) {
        list.add(StepKind::kPick,
                 PickJob{.rows = rows,
                         .size = kVocab,
                         .chunks = pick_chunks(gpu, rows, kVocab, kPickPerThread),
                         .scores = reinterpret_cast<const float*>(logits.data()),
                         .stride = kVocab,
                         .found = reinterpret_cast<Found*>(found.data()),
                         .finished = zeros,
                         .damaged = zeros + kMaxRows,
                         .out = reinterpret_cast<BestTokens*>(out.data())},
                 0);
      }
      list.finish(gpu, rows);
      const double seconds = best_of(gpu, list, kSkipNothing, reinterpret_cast<const Step*>(memory.data()));
      line += fmt::format(" {:7.2f}", seconds * 1e6);
    }
    fmt::print("{}\n", line);
  }
}

struct Heads {
  const char* name;
  int dim, heads, kv_heads, pairs, window;  // window 0: a full layer
  bool k_is_v;
};

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
  group.ring = pages;
  group.first_key[kind] = step.row[0].first[kind];
  group.end_key[kind] = step.row[width - 1].end[kind];
  for (int i = 0; i < needed; ++i) step.pages[i] = pages + static_cast<size_t>(i % page_count) * page_bytes;
  return state;
}

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
  for (const int context : {1024, 32768}) {
    for (const Heads& shape : shapes) {
      if (shape.window > 0 && context > 1024) continue;
      for (const int width : {1, 4}) {
        const auto page = static_cast<size_t>((shape.k_is_v ? 1 : 2) * shape.kv_heads * 256 * shape.dim * 2);
        const size_t layer_bytes = std::min<size_t>(page * static_cast<size_t>(context / 256 + 1), 96 << 20);
        const auto layer_pages = static_cast<int>(layer_bytes / page);
        const auto state = attend_step(shape, context, width, memory.data(), page, layer_pages);
        gpu.to_device(device_step.data(), state.data(), state.size());
        gpu.clear(clocks.data(), clocks.size());
        StepList list;
        for (int layer = 0; layer < kLayers; ++layer) {
          AttendJob job;
          job.own = {.step = reinterpret_cast<const Step*>(device_step.data()),
                     .rows = width,
                     .heads = shape.heads,
                     .stores = true,
                     .v_norm = true,
                     .epsilon = 1e-6f,
                     .cache = {.ring = shape.window > 0,
                               .k_is_v = shape.k_is_v,
                               .kv_heads = shape.kv_heads,
                               .head_dim = shape.dim,
                               .element_bytes = 2,
                               .ring_pages = layer_pages,
                               .ring_page_bytes = static_cast<int64_t>(page),
                               .page_offset = static_cast<int64_t>(layer_bytes) * layer},
                     .head_dim = shape.dim,
                     .turns = {rows, rows + (1 << 18), shape.pairs},
                     .q_norm = rows + layer * 8192,
                     .k_norm = rows + layer * 8192 + 4096,
                     .query = const_cast<float*>(rows) + (1 << 20),
                     .key = rows + (1 << 21),
                     .value = rows + (1 << 21) + (1 << 20),
                     .query_stride = shape.heads * shape.dim,
                     .kv_stride = shape.kv_heads * shape.dim};
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
        fmt::print("{:12} {:5} width {} {:7.2f} {:6.2f} us ", shape.name, context, width, seconds[0] * 1e6,
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

void run(int argc, char** argv) {
  Gpu gpu(0);
  prepare_steps(gpu);
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
  const bool wide = argc > 1 && std::strcmp(argv[1], "wide") == 0;
  const bool attend = argc > 1 && std::strcmp(argv[1], "attend") == 0;
  constexpr size_t kBytes = size_t{3} << 30;
  DeviceMemory weights(kBytes, "matrices"), activations(size_t{64} << 20, "rows"),
      out(size_t{64} << 20, "out");
  std::vector<uint32_t> noise(1 << 22);
  for (size_t i = 0; i < noise.size(); ++i) {
    // Any bits are codes; as scales, positive numbers around one in both halves.
    noise[i] = (static_cast<uint32_t>(keyed_bits(1, i)) & 0x3f7f3f7fu) | 0x30003000u;
  }
  for (size_t at = 0; at < kBytes; at += noise.size() * 4) {
    gpu.to_device(weights.data() + at, noise.data(), noise.size() * 4);
    gpu.finish();
  }
  std::vector<float> rows(4 << 20);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(keyed_uniform(2, i)) - 0.5f;
  gpu.to_device(activations.data(), rows.data(), rows.size() * 4);
  gpu.finish();

  double bandwidth = 0;
  for (int i = 0; i < 4; ++i) {
    gpu.mark(0);
    read_memory(gpu, weights.data(), kBytes, reinterpret_cast<float*>(out.data()));
    gpu.mark(1);
    gpu.finish();
    bandwidth = std::max(bandwidth, static_cast<double>(kBytes) / gpu.seconds_between(0, 1));
  }
  fmt::print("{}: read bandwidth {:.0f} GB/s\n", gpu.info().name, bandwidth / 1e9);

  if (wide) return time_wide(gpu, weights);
  if (attend) return time_attend(gpu, weights, activations);
  if (argc > 1 && std::strcmp(argv[1], "tensor") == 0) return time_tensor_cores(gpu);
  time_barrier(gpu);
  time_picks(gpu);

  const Case cases[] = {{"e2b qkv", 2560, 1536, false},     {"e2b o", 1536, 2048, false},
                        {"e2b gate up", 12288, 1536, true}, {"e2b down", 1536, 12288, false, 4},
                        {"e2b ple gate", 256, 1536, false}, {"e2b ple proj", 1536, 256, false},
                        {"26b qkv", 8192, 2816, false},     {"26b o", 2816, 4096, false, 2},
                        {"26b gate up", 2112, 2816, true},  {"12b down", 3840, 15360, false, 4},
                        {"31b qkv", 16384, 5376, false},    {"31b o", 5376, 8192, false, 2},
                        {"31b gate up", 21504, 5376, true}, {"31b down", 5376, 21504, false, 4},
                        {"31b head", 262144, 5376, false}};
  const std::vector<int> widths = quick ? std::vector<int>{1} : std::vector<int>{1, 2, 4, 8, 16};
  for (const Format format : {Format::kAffine4, Format::kAffine8, Format::kBf16}) {
    if (quick && format != Format::kAffine4) break;
    fmt::print(
        "\n{}: us per phase (share of bandwidth) at widths 1, 2, 4, 8, 16; at 1 also its parts alone, each "
        "with a meeting of all blocks\n",
        format == Format::kAffine4   ? "4 bits"
        : format == Format::kAffine8 ? "8 bits"
                                     : "bf16");
    for (const Case& one : cases) {
      std::string line =
          fmt::format("{:14} {:6.1f} MB ", one.name, static_cast<double>(shape(one, format).bytes()) / 1e6);
      for (const int width : widths) {
        PackedMatrix packed = shape(one, format);
        const size_t stride = (packed.bytes() + 255) / 256 * 256;
        const int copies = static_cast<int>(std::min<size_t>(64, kBytes / stride));
        if (copies < 1) continue;
        StepList list;
        for (int i = 0; i < copies; ++i) {
          packed.data = weights.data() + static_cast<size_t>(i) * stride;
          Job job;
          job.segment_count = packed.slices;
          for (int part = 0; part < packed.slices; ++part) {
            Segment& segment = job.segments[part];
            segment.matrix = packed.slice(part);
            segment.in.rows = reinterpret_cast<const float*>(activations.data()) + part * packed.cols;
            segment.in.stride = one.cols;
            segment.in.cols = packed.cols;
            segment.in.epsilon = 1e-6f;
            segment.normed = one.slices == 1;
            if (segment.normed) {  // a branch to add, both with their norms, as in most products of a model
              const auto* more = reinterpret_cast<const float*>(activations.data()) + (1 << 20);
              segment.in.branch = more;
              segment.in.branch_stride = one.cols;
              segment.in.branch_norm = more + (1 << 19) + i * 8192;
              segment.norm = more + (1 << 20) + i * 8192;
            }
            segment.epilogue = one.pair ? Epilogue::kGated : Epilogue::kStore;
            segment.out =
                reinterpret_cast<float*>(out.data()) + static_cast<int64_t>(part) * kMaxRows * one.rows;
            segment.out_stride = one.rows;
          }
          list.add_product(gpu, job, 1, 0);
        }
        list.finish(gpu, width);
        const int per_pass = list.jobs()[0].rows_per_pass, passes = (width + per_pass - 1) / per_pass;
        const double seconds = best_of(gpu, list, kSkipNothing);
        line += fmt::format(" {:7.2f} ({:3.0f} %{})", seconds * 1e6,
                            100 * static_cast<double>(packed.bytes()) / seconds / bandwidth,
                            passes > 1 ? fmt::format(", {} passes", passes) : "");
        if (width != 1) continue;
        const auto alone = [&](int skipped) { return best_of(gpu, list, skipped) * 1e6; };
        line +=
            fmt::format(" [stage {:.2f}, stream {:.2f}, multiply {:.2f}]", alone(kSkipMultiply | kSkipStream),
                        alone(kSkipMultiply | kSkipStage), alone(kSkipStage | kSkipStream));
      }
      fmt::print("{}\n", line);
    }
  }
}

}  // namespace
}  // namespace slip::backend::cuda

int main(int argc, char** argv) {
  try {
    slip::backend::cuda::run(argc, argv);
  } catch (const slip::Error& error) {
    fmt::print(stderr, "cuda_products: {}\n", error.what());
    return error.exit_code();
  }
}
