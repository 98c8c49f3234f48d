#include "backend/cpu/vision_encoder.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "backend/cpu/dot_rows.h"
#include "backend/cpu/vision_executor.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cpu {

using model::VisionConfig;
using model::VisionKind;
using model::VisionPhaseKind;

namespace {

// Blocks have a multiple of so many rows: what the kernels take at once.
constexpr int kRowStep = 8;
// Of one thread, until a stage has been measured. Too slow rather than too fast: the first slice must be
// short.
constexpr double kAssumedFlopSeconds = 1 / 2e10;

/// Of this thread alone, so that what else the machine runs does not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Phases [first, end) of the program that a row goes through without another row's results.
struct Stage {
  size_t first = 0, end = 0;
  double flop_seconds = kAssumedFlopSeconds;  // of one thread, as last measured
};

/// kGateUp could go on from kAttentionOut, but slices half as long are worth more than the barrier.
bool begins_stage(VisionPhaseKind kind) {
  return kind == VisionPhaseKind::kPatches || kind == VisionPhaseKind::kQkv ||
         kind == VisionPhaseKind::kAttend || kind == VisionPhaseKind::kGateUp ||
         kind == VisionPhaseKind::kPool;
}

std::vector<Stage> stages_of(const model::VisionProgram& program) {
  std::vector<Stage> stages;
  for (size_t i = 0; i < program.phases.size(); ++i) {
    if (begins_stage(program.phases[i].kind)) stages.push_back({.first = i});
    stages.back().end = i + 1;
  }
  return stages;
}

void check_grid(const EncoderInput& input, const VisionConfig& config, int max_patches) {
  const int side = config.kind == VisionKind::kTower ? config.pool_side : 1;
  if (input.columns > 0 && input.rows > 0 && input.columns <= config.positions &&
      input.rows <= config.positions && input.columns <= max_patches / input.rows &&
      input.columns % side == 0 && input.rows % side == 0 &&
      input.columns * input.rows / config.patches_per_soft_row() == input.soft_rows) {
    return;
  }
  fail_usage(
      "an image of {} x {} patches for {} soft tokens does not fit this model, which takes at most {} "
      "patches, "
      "{} in a line, {} x {} to a soft token",
      input.columns, input.rows, input.soft_rows, max_patches, config.positions, side, side);
}

void check_values(const EncoderInput& input, const VisionConfig& config) {
  const auto patches = static_cast<size_t>(input.columns * input.rows);
  const bool placed = !input.positions.empty();
  bool good = input.patch_floats == config.patch_values() &&
              input.patches.size() == patches * static_cast<size_t>(config.patch_values()) &&
              (!placed || input.positions.size() == 2 * patches);
  for (size_t i = 0; placed && good && i < patches; ++i) {
    good = input.positions[2 * i] == static_cast<int>(i) % input.columns &&
           input.positions[2 * i + 1] == static_cast<int>(i) / input.columns;
  }
  if (good) return;
  fail_usage("an image of {} x {} patches must come as so many rows of {} values, in reading order",
             input.columns, input.rows, config.patch_values());
}

class CpuVisionEncoder final : public ObservableEncoder {
 public:
  CpuVisionEncoder(ThreadPool& pool, const CpuOptions& options, const VisionConfig& config,
                   const model::VisionWeights& weights)
      : pool_(pool),
        executor_(pool, options.activations != ActivationMode::kFloat && has_bf16_dot(), config, weights),
        stages_(stages_of(executor_.program())),
        stage_(stages_.size()),
        seconds_(static_cast<size_t>(pool.size()) * phase_count()),
        phase_seconds_(phase_count()) {}

  void begin(const EncoderInput& input) override {
    check_grid(input, program().config, max_patches());
    check_values(input, program().config);
    executor_.take(input);
    stage_ = 0;
    next_row_ = 0;
    std::fill(seconds_.begin(), seconds_.end(), 0.0);
  }
  SoftRowsHandle run_slice(double seconds) override;
  void cancel() override { stage_ = stages_.size(); }
  double progress() const override;

  int max_patches() const override { return executor_.max_patches(); }
  size_t resident_bytes() const override { return executor_.resident_bytes(); }
  std::span<const double> phase_seconds() const override;
  const model::VisionProgram& program() const override { return executor_.program(); }
  bool narrow() const override { return executor_.narrow(); }

 private:
  size_t phase_count() const { return executor_.program().phases.size(); }
  int rows_of(const Stage& stage) const;
  double flops_of_row(const Stage& stage) const;
  double seconds_of_row(const Stage& stage) const { return stage.flop_seconds * flops_of_row(stage); }
  int foreseen_rows(const Stage& stage, double seconds) const;
  void run_rows(Stage& stage, int count);
  void run_block(const Stage& stage, VisionExecutor::RowBlock block, int thread);

  ThreadPool& pool_;
  VisionExecutor executor_;
  std::vector<Stage> stages_;
  size_t stage_;  // stages_.size(): no image is at work
  int next_row_ = 0;
  std::vector<double> seconds_;  // [thread][phase]
  mutable std::vector<double> phase_seconds_;
};

SoftRowsHandle CpuVisionEncoder::run_slice(double seconds) {
  SLIP_CHECK(stage_ < stages_.size());
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double left = seconds;
  do {
    Stage& stage = stages_[stage_];
    run_rows(stage, foreseen_rows(stage, left));
    if (next_row_ == rows_of(stage)) {
      ++stage_;
      next_row_ = 0;
    }
    if (stage_ == stages_.size()) {
      return std::make_shared<HostSoftRows>(executor_.take_soft_rows(), program().config.text_hidden);
    }
    left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
    // A block that would not end in time waits for the next slice.
  } while (seconds_of_row(stages_[stage_]) * kRowStep < left);
  return nullptr;
}

int CpuVisionEncoder::rows_of(const Stage& stage) const {
  const bool pooled = program().phases[stage.first].kind == VisionPhaseKind::kPool;
  return pooled ? executor_.soft_rows() : executor_.patches();
}

double CpuVisionEncoder::flops_of_row(const Stage& stage) const {
  double flops = 0;
  for (size_t i = stage.first; i < stage.end; ++i) {
    flops += program().phases[i].row_flops;
    if (program().phases[i].kind == VisionPhaseKind::kAttend) {
      flops += 4.0 * executor_.patches() * program().config.q_size();
    }
  }
  return flops;
}

int CpuVisionEncoder::foreseen_rows(const Stage& stage, double seconds) const {
  const int least = kRowStep * pool_.size(), left = rows_of(stage) - next_row_;
  const double rows = std::clamp(seconds / seconds_of_row(stage) * pool_.size(), 0.0, 1e9);
  return std::min(left, std::max(least, static_cast<int>(rows) / least * least));
}

void CpuVisionEncoder::run_rows(Stage& stage, int count) {
  const auto start = std::chrono::steady_clock::now();
  const int share = (count + pool_.size() - 1) / pool_.size();
  const int size = std::min(VisionWork::kMostRows, (share + kRowStep - 1) / kRowStep * kRowStep);
  const int blocks = (count + size - 1) / size;
  pool_.run([&](int thread) {
    for (int64_t i = pool_.next(thread, blocks); i >= 0; i = pool_.next(thread, blocks)) {
      const int at = static_cast<int>(i) * size;
      run_block(stage, {next_row_ + at, std::min(size, count - at)}, thread);
    }
  });
  next_row_ += count;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double row = seconds.count() * std::min(pool_.size(), blocks) / count;
  stage.flop_seconds = std::max(row / flops_of_row(stage), 1e-15);
}

void CpuVisionEncoder::run_block(const Stage& stage, VisionExecutor::RowBlock block, int thread) {
  double before = thread_seconds();
  for (size_t i = stage.first; i < stage.end; ++i) {
    executor_.run(program().phases[i], block, thread, observe);
    const double after = thread_seconds();
    seconds_[static_cast<size_t>(thread) * phase_count() + i] += after - before;
    before = after;
  }
}

double CpuVisionEncoder::progress() const {
  if (stage_ == stages_.size()) return 1;
  double done = 0, all = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const double row = flops_of_row(stages_[i]);
    all += row * rows_of(stages_[i]);
    if (i <= stage_) done += row * (i < stage_ ? rows_of(stages_[i]) : next_row_);
  }
  return done / all;
}

std::span<const double> CpuVisionEncoder::phase_seconds() const {
  std::fill(phase_seconds_.begin(), phase_seconds_.end(), 0.0);
  for (size_t i = 0; i < seconds_.size(); ++i) phase_seconds_[i % phase_count()] += seconds_[i];
  return phase_seconds_;
}

}  // namespace

std::unique_ptr<ObservableEncoder> load_vision(ThreadPool& pool, const CpuOptions& options,
                                               const VisionConfig& config,
                                               const model::VisionWeights& weights) {
  return std::make_unique<CpuVisionEncoder>(pool, options, config, weights);
}

}  // namespace slip::backend::cpu
