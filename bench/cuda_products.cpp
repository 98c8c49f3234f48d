// Times the products of the CUDA executor alone, per shape and width: phases of one step over matrices that
// together are several times the second-level cache. At width 1 also what their parts cost alone: staging the
// rows, streaming the weights, multiplying what is already in shared memory. And the picking of tokens.
// `cuda_products quick [name]` times up to eight rows of 4-bit matrices only, as pairs and as halves, of one
// shape if asked to, and their parts alone at each width, `cuda_products wide` the products of wide passes by
// warps and by warpgroups, `cuda_products tensor` the tensor cores alone, `cuda_products attend` attention,
// `cuda_products wide_attend` that of wide passes.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/noise.h"
#include "cuda_bench.h"
#include "tensor_rate.h"

namespace slip::backend::cuda {
namespace {

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
                         .chunks = pick_chunks(gpu, rows, kVocab),
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

constexpr size_t kBytes = size_t{3} << 30;  // of weights

/// What the sum of a stream and a normed branch of some parts costs as a phase of its own, with the meeting.
void time_sums(Gpu& gpu, const DeviceMemory& activations, const DeviceMemory& out) {
  constexpr int kPhases = 50, kStride = 8192;
  const auto* noise = reinterpret_cast<const float*>(activations.data());
  fmt::print("\nsums of 2, 4, 8, 16 rows, us per phase\n");
  for (const int cols : {1536, 2560, 3840, 5376}) {
    for (const int parts : {1, 2, 4}) {
      std::string line = fmt::format("{} columns, {} parts ", cols, parts);
      for (const int rows : {2, 4, 8, 16}) {
        StepList list;
        for (int i = 0; i < kPhases; ++i) {
          Input in;
          in.rows = noise;
          in.stride = in.branch_stride = in.keep_stride = kStride;
          in.cols = cols;
          in.branch = noise + (1 << 20);
          in.branch_parts = parts;
          in.part_stride = kMaxRows * kStride;
          in.branch_norm = noise + (1 << 21);
          in.epsilon = 1e-6f;
          in.keep = reinterpret_cast<float*>(out.data());
          list.add(StepKind::kSum, SumJob{.rows = rows, .in = in}, 0);
        }
        list.finish(gpu, rows);
        line += fmt::format(" {:7.2f}", best_of(gpu, list, kSkipNothing) * 1e6);
      }
      fmt::print("{}\n", line);
    }
  }
}

constexpr Case kCases[] = {{"e2b qkv", 2560, 1536, false},     {"e2b o", 1536, 2048, false},
                           {"e2b gate up", 12288, 1536, true}, {"e2b down", 1536, 12288, false, 4},
                           {"e2b ple gate", 256, 1536, false}, {"e2b ple proj", 1536, 256, false},
                           {"26b qkv", 8192, 2816, false},     {"26b o", 2816, 4096, false, 2},
                           {"26b gate up", 2112, 2816, true},  {"e4b gate up", 10240, 2560, true},
                           {"12b gate up", 15360, 3840, true}, {"12b down", 3840, 15360, false, 4},
                           {"31b qkv", 16384, 5376, false},    {"31b o", 5376, 8192, false, 2},
                           {"31b gate up", 21504, 5376, true}, {"31b down", 5376, 21504, false, 4},
                           {"31b head", 262144, 5376, false}};

/// A product of `rows` rows as often as there are weights for it, up to 64 times, each with weights of its
/// own.
StepList products_of(const Gpu& gpu, const Case& one, int rows, PackedMatrix packed,
                     const DeviceMemory& weights, const DeviceMemory& activations, const DeviceMemory& out) {
  const size_t stride = (packed.bytes() + 255) / 256 * 256;
  const int copies = static_cast<int>(std::min<size_t>(64, kBytes / stride));
  StepList list;
  for (int i = 0; i < copies; ++i) {
    packed.data = weights.data() + static_cast<size_t>(i) * stride;
    Job job;
    job.segment_count = packed.slices;
    for (int part = 0; part < std::min(packed.slices, kMaxSegments); ++part) {
      Segment& segment = job.segments[part];
      segment.matrix = packed.slice(part);
      segment.in.rows = reinterpret_cast<const float*>(activations.data()) + part * packed.cols;
      segment.in.stride = one.cols;
      segment.in.cols = packed.cols;
      segment.in.epsilon = 1e-6f;
      segment.normed = one.slices == 1;
      const auto* more = reinterpret_cast<const float*>(activations.data()) + (1 << 20);
      if (segment.normed) segment.norm = more + (1 << 20) + i * 8192;
      if (segment.normed && rows <= 2) {  // a branch to add, which of more rows is a phase of its own
        segment.in.branch = more;
        segment.in.branch_stride = one.cols;
        segment.in.branch_norm = more + (1 << 19) + i * 8192;
      }
      segment.epilogue = one.pair ? Epilogue::kGated : Epilogue::kStore;
      segment.out = reinterpret_cast<float*>(out.data()) + static_cast<int64_t>(part) * kMaxRows * one.rows;
      segment.out_stride = one.rows;
    }
    list.add_product(gpu, job, 1, 0);
  }
  return list;
}

/// Products of one row with every number of warps to a tile: what parts_for() (pack.cpp) chooses from.
void time_parts(Gpu& gpu, const DeviceMemory& weights, const DeviceMemory& activations,
                const DeviceMemory& out) {
  fmt::print("4 bits, one row: us per phase with 1, 2, 4, 8, 16 warps to a tile; * = chosen\n");
  for (const Case& one : kCases) {
    std::string line = fmt::format("{:14}", one.name);
    for (int parts = 1; parts <= kWarps; parts *= 2) {
      PackedMatrix packed = shape(one, Format::kAffine4);
      if (parts > packed.pieces) break;  // every warp needs some
      const char* chosen = packed.parts == parts ? "*" : " ";
      packed.parts = parts;
      StepList list = products_of(gpu, one, 1, packed, weights, activations, out);
      list.finish(gpu, 1);
      line += fmt::format(" {:7.2f}{}", best_of(gpu, list, kSkipNothing) * 1e6, chosen);
    }
    fmt::print("{}\n", line);
  }
}

void run(int argc, char** argv) {
  Gpu gpu(0);
  prepare_steps(gpu);
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
  const bool wide = argc > 1 && std::strcmp(argv[1], "wide") == 0;
  const bool attend = argc > 1 && std::strcmp(argv[1], "attend") == 0;
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
  if (argc > 1 && std::strcmp(argv[1], "parts") == 0) return time_parts(gpu, weights, activations, out);
  if (attend) return time_attend(gpu, weights, activations);
  if (argc > 1 && std::strcmp(argv[1], "wide_attend") == 0)
    return time_wide_attend(gpu, weights, activations);
  if (argc > 1 && std::strcmp(argv[1], "tensor") == 0) return time_tensor_cores(gpu);
  const char* only = quick && argc > 2 ? argv[2] : "";
  if (*only == 0) {
    time_barrier(gpu);
    time_picks(gpu);
    time_sums(gpu, activations, out);
  }

  const std::vector<int> widths = quick ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 2, 4, 8, 16};
  for (const Format format : {Format::kAffine4Halves, Format::kAffine4, Format::kAffine8, Format::kBf16}) {
    if (quick && !is_fours(format)) break;
    fmt::print(
        "\n{}: us per phase (share of bandwidth) at widths 1, 2, 4, 8, 16; at 1 also its parts alone, each "
        "with a meeting of all blocks\n",
        format == Format::kAffine4Halves ? "4 bits, rows as halves"
        : format == Format::kAffine4     ? "4 bits"
        : format == Format::kAffine8     ? "8 bits"
                                         : "bf16");
    for (const Case& one : kCases) {
      if (*only != 0 && std::strcmp(only, one.name) != 0) continue;
      std::string line =
          fmt::format("{:14} {:6.1f} MB ", one.name, static_cast<double>(shape(one, format).bytes()) / 1e6);
      for (const int width : widths) {
        PackedMatrix packed = shape(one, format);
        StepList list = products_of(gpu, one, width, packed, weights, activations, out);
        list.finish(gpu, width);
        const int per_pass = list.jobs()[0].rows_per_pass, passes = (width + per_pass - 1) / per_pass;
        const double seconds = best_of(gpu, list, kSkipNothing);
        line += fmt::format(" {:7.2f} ({:3.0f} %{})", seconds * 1e6,
                            100 * static_cast<double>(packed.bytes()) / seconds / bandwidth,
                            passes > 1 ? fmt::format(", {} passes", passes) : "");
        if (width != 1 && !quick) continue;
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
