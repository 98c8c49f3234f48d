// Times the narrow product of the CUDA executor alone, per shape and width: launches over matrices that
// together are several times the second-level cache, in one recorded graph, as a step has them.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/job.h"
#include "backend/cuda/kernels/step.h"
#include "base/error.h"
#include "base/noise.h"

namespace slip::backend::cuda {
namespace {

struct Case {
  const char* name;
  int rows, cols;
  bool pair;
  int slices = 1;
};

PackedMatrix shape(const Case& one, Format format) {
  PackedMatrix packed;
  packed.format = format;
  packed.rows = one.rows;
  packed.cols = one.cols / one.slices;
  packed.slices = one.slices;
  packed.pair = one.pair;
  packed.subtiles = one.pair || one.rows >= 8192 ? 2 : 1;
  packed.groups = format == Format::kBf16 ? 0 : 1;
  const int blocks = (packed.cols + 63) / 64;
  packed.chunks = format == Format::kBf16 ? 2 * blocks : blocks;
  packed.chunk_bytes = packed.subtiles * ((format == Format::kAffine4 ? 512 : 1024) + 64 * packed.groups);
  const int tile_rows = one.pair ? 16 : 16 * packed.subtiles;
  packed.tiles = (one.rows + tile_rows - 1) / tile_rows;
  while (packed.parts < kWarps && blocks >= 4 * packed.parts) packed.parts *= 2;
  return packed;
}

void run(int argc, char** argv) {
  Gpu gpu(0);
  prepare_products(gpu);
  const bool quick = argc > 1 && std::strcmp(argv[1], "quick") == 0;
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
    fmt::print("\n{}: us per launch (share of bandwidth) at widths 1, 2, 4, 8, 16\n",
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
        gpu.begin_capture();
        int passes = 1;
        for (int i = 0; i < copies; ++i) {
          packed.data = weights.data() + static_cast<size_t>(i) * stride;
          Job job;
          job.rows = width;
          job.segment_count = packed.slices;
          for (int part = 0; part < packed.slices; ++part) {
            Segment& segment = job.segments[part];
            segment.matrix = packed.slice(part);
            segment.in.rows = reinterpret_cast<const float*>(activations.data()) + part * packed.cols;
            segment.in.stride = one.cols;
            segment.in.cols = packed.cols;
            segment.in.epsilon = 1e-6f;
            segment.normed = one.slices == 1;
            segment.epilogue = one.pair ? Epilogue::kGated : Epilogue::kStore;
            segment.out =
                reinterpret_cast<float*>(out.data()) + static_cast<int64_t>(part) * kMaxRows * one.rows;
            segment.out_stride = one.rows;
          }
          plan_blocks(gpu, job, 1);
          passes = (job.rows + job.rows_per_pass - 1) / job.rows_per_pass;
          product(gpu, job);
        }
        const Graph graph = gpu.end_capture();
        double best = 1;
        for (int i = 0; i < 6; ++i) {
          gpu.mark(0);
          gpu.run(graph);
          gpu.mark(1);
          gpu.finish();
          best = std::min(best, gpu.seconds_between(0, 1) / copies);
        }
        line += fmt::format(" {:7.2f} ({:3.0f} %{})", best * 1e6,
                            100 * static_cast<double>(packed.bytes()) / best / bandwidth,
                            passes > 1 ? fmt::format(", {} passes", passes) : "");
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
