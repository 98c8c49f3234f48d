#include "cli/commands/bench_vision.h"

// jpeglib.h needs FILE.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/cpu/dot_rows.h"
#include "backend/cpu/vision_encoder.h"
#include "base/error.h"
#include "base/noise.h"
#include "cli/commands/bench_run.h"
#include "media/decoder.h"
#include "media/fit.h"
#include "media/worker_program.h"

namespace slip::cli {
namespace {

using backend::cpu::ObservableEncoder;
using Clock = std::chrono::steady_clock;
using model::VisionPhaseKind;

constexpr int kWidth = 1024, kHeight = 768;
constexpr int kJpegWidth = 4000, kJpegHeight = 3000;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A photograph's share of detail and of noise, as a JPEG of twelve megapixels with 4:2:0 colours.
std::vector<std::byte> twelve_megapixels() {
  jpeg_compress_struct compress{};
  jpeg_error_mgr errors{};
  compress.err = jpeg_std_error(&errors);
  jpeg_create_compress(&compress);
  unsigned char* file = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&compress, &file, &size);
  compress.image_width = kJpegWidth;
  compress.image_height = kJpegHeight;
  compress.input_components = 3;
  compress.in_color_space = JCS_RGB;
  jpeg_set_defaults(&compress);
  jpeg_set_quality(&compress, 90, TRUE);
  jpeg_start_compress(&compress, TRUE);
  std::vector<uint8_t> row(size_t{3} * kJpegWidth);
  for (int y = 0; y < kJpegHeight; ++y) {
    for (size_t i = 0; i < row.size(); ++i) {
      const auto wave = static_cast<int>((i / 40 + static_cast<size_t>(y) / 25) % 160);
      row[i] = static_cast<uint8_t>(wave + static_cast<int>(keyed_bits(static_cast<uint64_t>(y), i) % 24));
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&compress, &rows, 1);
  }
  jpeg_finish_compress(&compress);
  jpeg_destroy_compress(&compress);
  const auto* bytes = reinterpret_cast<const std::byte*>(file);
  std::vector<std::byte> out(bytes, bytes + size);
  std::free(file);
  return out;
}

double time_decoding(int repeats) {
  const std::vector<std::byte> jpeg = twelve_megapixels();
  media::Decoder decoder({.worker = media::this_program()});
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    decoder.decode(jpeg, "a picture of twelve megapixels");
    seconds.push_back(seconds_since(begin));
  }
  return median(seconds);
}

class Bench {
 public:
  Bench(const model::VisionConfig& config, const model::VisionWeights& weights,
        const session::BackendOptions& options, const std::function<bool()>& interrupted)
      : config_(config),
        pool_(options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency())),
        encoder_(backend::cpu::load_vision(pool_, cpu_options(options), config, weights)),
        interrupted_(interrupted) {}

  VisionResult measure(int budget, int repeats) {
    const media::Fit size = media::fit(kWidth, kHeight, budget);
    // Made-up towers have patches of other sizes: the same grid counts.
    const int scale = config_.kind == model::VisionKind::kTower ? media::kPatchSide : media::kBlockSide;
    const backend::EncoderInput shape{.patches = {},
                                      .patch_floats = config_.patch_values(),
                                      .columns = size.width / scale,
                                      .rows = size.height / scale,
                                      .soft_rows = size.soft_tokens};
    VisionResult result{
        .budget = budget, .patches = shape.columns * shape.rows, .soft_tokens = shape.soft_rows};
    std::vector<float> values(static_cast<size_t>(result.patches) * static_cast<size_t>(shape.patch_floats));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(keyed_uniform(3, i));
    std::vector<double> clock, processor, products, attention;
    for (int i = 0; i < repeats; ++i) {
      clock.push_back(run_once(shape, values));
      double dots = 0, attend = 0;
      const auto spent = encoder_->phase_seconds();
      for (size_t p = 0; p < spent.size(); ++p)
        (encoder_->program().phases[p].kind == VisionPhaseKind::kAttend ? attend : dots) += spent[p];
      processor.push_back((dots + attend) / pool_.size());
      products.push_back(dots);
      attention.push_back(attend);
    }
    result.seconds = median(clock);
    result.processor_seconds = median(processor);
    result.product_rate = encoder_->program().product_flops(result.patches) / median(products);
    if (median(attention) > 0)
      result.attention_rate = encoder_->program().attention_flops(result.patches) / median(attention);
    return result;
  }

  bool narrow() const { return encoder_->narrow(); }
  int threads() const { return pool_.size(); }
  size_t bytes() const { return encoder_->resident_bytes(); }

 private:
  static backend::cpu::CpuOptions cpu_options(const session::BackendOptions& options) {
    backend::cpu::CpuOptions cpu;
    if (options.activations == session::Activations::kFloat)
      cpu.activations = backend::cpu::ActivationMode::kFloat;
    return cpu;
  }

  double run_once(backend::EncoderInput input, std::span<const float> values) {
    const auto begin = Clock::now();
    input.patches = values;
    encoder_->begin(input);
    while (encoder_->run_slice(0.05) == nullptr) {
      if (interrupted_()) fail(ErrorKind::kRuntime, "interrupted");
    }
    return seconds_since(begin);
  }

  const model::VisionConfig& config_;
  ThreadPool pool_;
  std::unique_ptr<ObservableEncoder> encoder_;
  const std::function<bool()>& interrupted_;
};

std::string tower_text(const model::VisionConfig& config) {
  if (config.kind == model::VisionKind::kUnified)
    return fmt::format("no tower: one product of {} per tile", config.hidden);
  return fmt::format("{} layers of {}, {} heads of {}", config.layers, config.hidden, config.heads,
                     config.head_dim);
}

}  // namespace

VisionReport run_vision(const model::VisionConfig& config, const model::VisionWeights& weights,
                        const session::BackendOptions& options, const VisionPlan& plan,
                        const std::function<bool()>& interrupted) {
  Bench bench(config, weights, options, interrupted);
  VisionReport report{.tower = tower_text(config),
                      .narrow = bench.narrow(),
                      .threads = bench.threads(),
                      .bytes = bench.bytes(),
                      .budgets = {}};
  report.peak = bench.narrow() ? backend::cpu::measure_dot_peak() : backend::cpu::measure_float_peak();
  for (const int budget : plan.budgets) report.budgets.push_back(bench.measure(budget, plan.repeats));
  report.decode_seconds = time_decoding(plan.repeats);
  return report;
}

std::string VisionReport::markdown() const {
  std::string text = fmt::format(
      "{}; {:.2f} GB of weights, {} threads, products of {}, peak {:.0f} GFLOP/s a thread\n\n"
      "| picture of {} x {} at | patches | tokens | seconds | processor seconds | products, GFLOP/s a thread "
      "| share of "
      "the peak | attention, GFLOP/s |\n|---|---|---|---|---|---|---|---|\n",
      tower, static_cast<double>(bytes) / 1e9, threads, narrow ? "bf16" : "floats", peak / 1e9, kWidth,
      kHeight);
  for (const VisionResult& at : budgets) {
    text += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:.0f} | {:.0f} % | {} |\n", at.budget,
                        at.patches, at.soft_tokens, at.seconds, at.processor_seconds, at.product_rate / 1e9,
                        100 * at.product_rate / peak,
                        at.attention_rate > 0 ? fmt::format("{:.0f}", at.attention_rate / 1e9) : "-");
  }
  return text + fmt::format("\na JPEG of {} x {}, decoded and resized, its process included: {:.2f} s\n",
                            kJpegWidth, kJpegHeight, decode_seconds);
}

nlohmann::ordered_json VisionReport::json() const {
  nlohmann::ordered_json out = {{"tower", tower},
                                {"bytes", bytes},
                                {"threads", threads},
                                {"bf16", narrow},
                                {"peak_per_thread", peak},
                                {"jpeg_seconds", decode_seconds},
                                {"budgets", nlohmann::ordered_json::array()}};
  for (const VisionResult& at : budgets) {
    out["budgets"].push_back({{"budget", at.budget},
                              {"patches", at.patches},
                              {"tokens", at.soft_tokens},
                              {"seconds", at.seconds},
                              {"processor_seconds", at.processor_seconds},
                              {"product_flops_per_thread", at.product_rate},
                              {"share_of_peak", at.product_rate / peak},
                              {"attention_flops_per_thread", at.attention_rate}});
  }
  return out;
}

}  // namespace slip::cli
