#include "backend/cpu/vision_encoder.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/packed_vision.h"
#include "backend/cpu/vision_work.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::backend::cpu {

using model::VisionField;
using model::VisionKind;
using model::VisionLayerWeights;
using model::VisionPhase;
using model::VisionPhaseKind;

namespace {

// A block is a multiple of this: what the kernels take at once.
constexpr int kRowStep = 8;
// Of one thread, until a stage has been measured: low, so that the first slice is not too long.
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

bool needs_all_rows(VisionPhaseKind kind) {
  return kind == VisionPhaseKind::kQkv || kind == VisionPhaseKind::kAttend ||
         kind == VisionPhaseKind::kGateUp || kind == VisionPhaseKind::kPool;
}

/// kGateUp could go on from kAttentionOut, but half as long slices are worth more than the barrier.
std::vector<Stage> stages_of(const model::VisionProgram& program) {
  std::vector<Stage> stages;
  for (size_t i = 0; i < program.phases.size(); ++i) {
    if (i == 0 || needs_all_rows(program.phases[i].kind)) stages.push_back({.first = i});
    stages.back().end = i + 1;
  }
  return stages;
}

/// Rows [first, first + count) of a stage on one thread.
struct RowBlock {
  int first = 0, count = 0;
};

class CpuVisionEncoder final : public ObservableEncoder {
 public:
  CpuVisionEncoder(ThreadPool& pool, const CpuOptions& options, const model::VisionConfig& config,
                   const model::VisionWeights& weights)
      : pool_(pool),
        config_(config),
        weights_(weights),
        program_(build_vision_program(config, weights)),
        narrow_(options.activations != ActivationMode::kFloat && has_bf16_dot()),
        packed_(pack_vision(weights, pool)),
        stages_(stages_of(program_)),
        seconds_(static_cast<size_t>(pool.size()) * program_.phases.size()),
        phase_seconds_(program_.phases.size()) {
    Carver counter;
    plan_memory(counter);
    memory_ = Buffer(counter.used(), "an image");
    Carver placer(memory_.data());
    plan_memory(placer);
    for (int t = 0; t < pool.size(); ++t) {
      position_readers_.push_back(std::make_unique<tensor::RowReader>(weights.positions));
    }
  }

  void begin(const EncoderInput& input) override;
  SoftRowsHandle run_slice(double seconds) override;
  void cancel() override { stage_ = stages_.size(); }

  int max_patches() const override { return kMostSoftRows * config_.patches_per_soft_row(); }
  size_t resident_bytes() const override { return packed_.memory.size(); }
  std::span<const double> phase_seconds() const override;
  const model::VisionProgram& program() const override { return program_; }
  bool narrow() const override { return narrow_; }

 private:
  void plan_memory(Carver& carver);
  void fill_rotary(int positions);
  int stage_rows(const Stage& stage) const;
  double stage_flops(const Stage& stage) const;  // of a row
  double row_seconds(const Stage& stage) const;  // of one thread
  int foreseen_rows(const Stage& stage, double seconds) const;
  void run_rows(Stage& stage, int count);
  void run_block(const Stage& stage, RowBlock block, int thread);
  void run_phase(const VisionPhase& phase, RowBlock block, int thread);

  void embed_patches(RowBlock block, int thread);
  void embed_tiles(RowBlock block, int thread);
  void qkv(int layer, RowBlock block, VisionWork& work);
  void finish_heads(const VisionLayerWeights& weights, int patch, float* q, float* k, float* v) const;
  void pool_rows(RowBlock block, VisionWork& work);
  void project(RowBlock block, VisionWork& work);
  /// Adds both position rows of a patch.
  void add_position(int patch, int thread, float* row);
  void show(const VisionPhase& phase, RowBlock block, const VisionWork& work);

  float* stream(int patch) const { return stream_ + int64_t{patch} * config_.hidden; }
  std::byte* query(int patch) const {
    return queries_ + int64_t{patch} * config_.q_size() * (narrow_ ? 2 : 4);
  }
  const float* patch_values(int patch) const { return patches_ + int64_t{patch} * config_.patch_values(); }

  ThreadPool& pool_;
  const model::VisionConfig config_;
  const model::VisionWeights& weights_;
  const model::VisionProgram program_;
  const bool narrow_;
  const PackedVision packed_;
  std::vector<Stage> stages_;

  Buffer memory_;
  float* patches_ = nullptr;      // [patches][patch values] as given
  float* stream_ = nullptr;       // [patches][hidden]
  std::byte* queries_ = nullptr;  // [patches][heads * head dim] of bf16 or floats
  ImageKv kv_;
  float* cosines_ = nullptr;  // [positions][head dim / 4]
  float* sines_ = nullptr;
  int rotary_filled_ = 0;
  std::vector<VisionWork> work_;  // per thread
  std::vector<std::unique_ptr<tensor::RowReader>> position_readers_;

  // The image at work. stage_ == stages_.size(): none.
  int columns_ = 0, patch_count_ = 0, soft_count_ = 0;
  size_t stage_ = SIZE_MAX;
  int next_row_ = 0;
  std::vector<float> soft_;

  std::vector<double> seconds_;  // [thread][phase]
  mutable std::vector<double> phase_seconds_;
  std::mutex observe_mutex_;
};

void CpuVisionEncoder::plan_memory(Carver& carver) {
  const auto patches = static_cast<size_t>(max_patches());
  const bool tower = config_.kind == VisionKind::kTower;
  patches_ = carver.take<float>(patches * static_cast<size_t>(config_.patch_values()));
  work_.clear();
  for (int t = 0; t < pool_.size(); ++t) work_.emplace_back(carver, config_, narrow_);
  if (!tower) return;
  stream_ = carver.take<float>(patches * static_cast<size_t>(config_.hidden));
  queries_ = carver.take<std::byte>(patches * static_cast<size_t>(config_.q_size()) * (narrow_ ? 2 : 4));
  kv_ = ImageKv(carver, config_.heads, config_.head_dim, max_patches(), narrow_);
  const auto angles = static_cast<size_t>(config_.positions) * static_cast<size_t>(config_.head_dim / 4);
  cosines_ = carver.take<float>(angles);
  sines_ = carver.take<float>(angles);
}

void CpuVisionEncoder::fill_rotary(int positions) {
  const int pairs = config_.head_dim / 4;
  for (; rotary_filled_ < positions; ++rotary_filled_) {
    for (int i = 0; i < pairs; ++i) {
      const double angle = rotary_filled_ * config_.rope_frequency(i);
      cosines_[rotary_filled_ * pairs + i] = static_cast<float>(std::cos(angle));
      sines_[rotary_filled_ * pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void CpuVisionEncoder::begin(const EncoderInput& input) {
  const int patches = input.columns > 0 && input.rows > 0 && input.columns <= max_patches() / input.rows
                          ? input.columns * input.rows
                          : 0;
  const int side = config_.kind == VisionKind::kTower ? config_.pool_side : 1;
  const bool whole = input.columns % side == 0 && input.rows % side == 0 &&
                     patches / config_.patches_per_soft_row() == input.soft_rows;
  if (patches == 0 || !whole || input.columns > config_.positions || input.rows > config_.positions) {
    fail_usage(
        "an image of {} x {} patches for {} soft tokens does not fit this model, which takes at most {} "
        "patches and {} in a line",
        input.columns, input.rows, input.soft_rows, max_patches(), config_.positions);
  }
  const auto values = static_cast<size_t>(patches) * static_cast<size_t>(config_.patch_values());
  bool ordered = input.positions.size() == 2 * static_cast<size_t>(patches);
  for (size_t i = 0; ordered && i < static_cast<size_t>(patches); ++i) {
    ordered = input.positions[2 * i] == static_cast<int>(i) % input.columns &&
              input.positions[2 * i + 1] == static_cast<int>(i) / input.columns;
  }
  if (input.patch_floats != config_.patch_values() || input.patches.size() != values || !ordered) {
    fail_usage("an image of {} x {} patches must come as so many rows of {} values, in reading order",
               input.columns, input.rows, config_.patch_values());
  }
  columns_ = input.columns;
  patch_count_ = patches;
  soft_count_ = input.soft_rows;
  stage_ = 0;
  next_row_ = 0;
  soft_.assign(static_cast<size_t>(soft_count_) * static_cast<size_t>(config_.text_hidden), 0.0f);
  std::fill(seconds_.begin(), seconds_.end(), 0.0);
  if (config_.kind == VisionKind::kTower) {
    kv_.resize(patches);
    fill_rotary(std::max(input.columns, input.rows));
  }
  const auto row_values = static_cast<size_t>(config_.patch_values());
  pool_.run([&](int thread) {
    for (int64_t i = pool_.next(thread, patches); i >= 0; i = pool_.next(thread, patches)) {
      const size_t at = static_cast<size_t>(i) * row_values;
      std::memcpy(patches_ + at, input.patches.data() + at, row_values * sizeof(float));
    }
  });
}

SoftRowsHandle CpuVisionEncoder::run_slice(double seconds) {
  SLIP_CHECK(stage_ < stages_.size());
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double left = seconds;
  do {
    Stage& stage = stages_[stage_];
    run_rows(stage, foreseen_rows(stage, left));
    if (next_row_ == stage_rows(stage)) {
      ++stage_;
      next_row_ = 0;
      if (stage_ == stages_.size())
        return std::make_shared<HostSoftRows>(std::move(soft_), config_.text_hidden);
    }
    left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
    // A block that would not end in time waits for the next slice.
  } while (row_seconds(stages_[stage_]) * kRowStep < left);
  return nullptr;
}

int CpuVisionEncoder::stage_rows(const Stage& stage) const {
  const bool pooled = program_.phases[stage.first].kind == VisionPhaseKind::kPool;
  return pooled ? soft_count_ : patch_count_;
}

double CpuVisionEncoder::row_seconds(const Stage& stage) const {
  return stage.flop_seconds * stage_flops(stage);
}

double CpuVisionEncoder::stage_flops(const Stage& stage) const {
  double flops = 0;
  for (size_t i = stage.first; i < stage.end; ++i) {
    flops += program_.phases[i].row_flops;
    if (program_.phases[i].kind == VisionPhaseKind::kAttend) flops += 4.0 * patch_count_ * config_.q_size();
  }
  return flops;
}

int CpuVisionEncoder::foreseen_rows(const Stage& stage, double seconds) const {
  const int least = kRowStep * pool_.size(), left = stage_rows(stage) - next_row_;
  const double rows = std::clamp(seconds / row_seconds(stage) * pool_.size(), 0.0, 1e9);
  return std::min(left, std::max(least, static_cast<int>(rows) / least * least));
}

void CpuVisionEncoder::run_rows(Stage& stage, int count) {
  const auto start = std::chrono::steady_clock::now();
  const int each = (count + pool_.size() - 1) / pool_.size();
  const int size = std::min(VisionWork::kMostRows, (each + kRowStep - 1) / kRowStep * kRowStep);
  const int blocks = (count + size - 1) / size;
  pool_.run([&](int thread) {
    for (int64_t i = pool_.next(thread, blocks); i >= 0; i = pool_.next(thread, blocks)) {
      const int at = static_cast<int>(i) * size;
      run_block(stage, {next_row_ + at, std::min(size, count - at)}, thread);
    }
  });
  next_row_ += count;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double cost = seconds.count() * std::min(pool_.size(), blocks) / count;
  stage.flop_seconds = std::max(cost / stage_flops(stage), 1e-15);
}

void CpuVisionEncoder::run_block(const Stage& stage, RowBlock block, int thread) {
  double before = thread_seconds();
  for (size_t i = stage.first; i < stage.end; ++i) {
    run_phase(program_.phases[i], block, thread);
    const double after = thread_seconds();
    seconds_[static_cast<size_t>(thread) * program_.phases.size() + i] += after - before;
    before = after;
  }
}

std::span<const double> CpuVisionEncoder::phase_seconds() const {
  std::fill(phase_seconds_.begin(), phase_seconds_.end(), 0.0);
  for (size_t i = 0; i < seconds_.size(); ++i) phase_seconds_[i % phase_seconds_.size()] += seconds_[i];
  return phase_seconds_;
}

void CpuVisionEncoder::run_phase(const VisionPhase& phase, RowBlock block, int thread) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  const auto layer = static_cast<size_t>(phase.layer);
  const FloatRows streams{stream(block.first), config_.hidden};
  switch (phase.kind) {
    case VisionPhaseKind::kPatches:
      config_.kind == VisionKind::kTower ? embed_patches(block, thread) : embed_tiles(block, thread);
      break;
    case VisionPhaseKind::kQkv: qkv(phase.layer, block, work); break;
    case VisionPhaseKind::kAttend:
      attend_image(kv_, query(block.first), config_.q_size(), block.count, work.attend, work.first.data,
                   work.first.stride);
      break;
    case VisionPhaseKind::kAttentionOut: {
      const VisionLayerWeights& weights = weights_.layers[layer];
      work.multiply(packed_.layers[layer].o, &weights.o, work.first, block.count, work.second);
      for (int i = 0; i < block.count; ++i) {
        add_norm_row(work.second.row(i), weights.post_attention_norm.data(), config_.hidden,
                     config_.norm_epsilon, streams.row(i));
      }
      break;
    }
    case VisionPhaseKind::kGateUp: {
      const VisionLayerWeights& weights = weights_.layers[layer];
      for (int i = 0; i < block.count; ++i) {
        norm_row(streams.row(i), weights.pre_mlp_norm.data(), config_.hidden, config_.norm_epsilon,
                 work.normed.row(i));
      }
      work.multiply(packed_.layers[layer].gate, &weights.gate, work.normed, block.count, work.first);
      work.multiply(packed_.layers[layer].up, &weights.up, work.normed, block.count, work.second);
      for (int i = 0; i < block.count; ++i) {
        gelu_times_row(work.first.row(i), work.second.row(i), config_.intermediate);
      }
      break;
    }
    case VisionPhaseKind::kDown: {
      const VisionLayerWeights& weights = weights_.layers[layer];
      work.multiply(packed_.layers[layer].down, &weights.down, work.first, block.count, work.second);
      for (int i = 0; i < block.count; ++i) {
        add_norm_row(work.second.row(i), weights.post_mlp_norm.data(), config_.hidden, config_.norm_epsilon,
                     streams.row(i));
      }
      break;
    }
    case VisionPhaseKind::kPool: pool_rows(block, work); break;
    case VisionPhaseKind::kProject: project(block, work); break;
  }
  if (observe) show(phase, block, work);
}

void CpuVisionEncoder::add_position(int patch, int thread, float* row) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  tensor::RowReader& reader = *position_readers_[static_cast<size_t>(thread)];
  float *x = work.third.row(0), *y = work.third.row(1);
  reader.floats(position_row(config_, 0, patch % columns_), x);
  reader.floats(position_row(config_, 1, patch / columns_), y);
  for (int i = 0; i < config_.hidden; ++i) row[i] += x[i] + y[i];
}

void CpuVisionEncoder::embed_patches(RowBlock block, int thread) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  for (int i = 0; i < block.count; ++i) {
    const float* values = patch_values(block.first + i);
    for (int v = 0; v < config_.patch_values(); ++v) work.normed.row(i)[v] = 2 * (values[v] - 0.5f);
  }
  work.multiply(packed_.patch, nullptr, work.normed, block.count, work.first);
  for (int i = 0; i < block.count; ++i) {
    const int patch = block.first + i;
    add_position(patch, thread, work.first.row(i));
    std::memcpy(stream(patch), work.first.row(i), static_cast<size_t>(config_.hidden) * sizeof(float));
  }
}

namespace {

/// Summed in double: this is one row in thousands.
void layer_norm(const float* x, int count, const model::LayerNormWeights& weights, float epsilon,
                float* out) {
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) sum += x[i];
  const double mean = sum / count;
  for (int i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double factor = 1 / std::sqrt(squares / count + epsilon);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    out[i] = static_cast<float>((x[i] - mean) * factor) * weights.weight[at] + weights.bias[at];
  }
}

}  // namespace

void CpuVisionEncoder::embed_tiles(RowBlock block, int thread) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  const float epsilon = config_.layer_norm_epsilon;
  for (int i = 0; i < block.count; ++i) {
    layer_norm(patch_values(block.first + i), config_.patch_values(), weights_.tile_norm, epsilon,
               work.normed.row(i));
  }
  work.multiply(packed_.patch, nullptr, work.normed, block.count, work.second);
  for (int i = 0; i < block.count; ++i) {
    float* row = work.second.row(i);
    for (int d = 0; d < config_.hidden; ++d) row[d] += weights_.patch_bias[static_cast<size_t>(d)];
    layer_norm(row, config_.hidden, weights_.patch_norm, epsilon, row);
    add_position(block.first + i, thread, row);
    layer_norm(row, config_.hidden, weights_.position_norm, epsilon, work.first.row(i));
  }
}

void CpuVisionEncoder::qkv(int layer, RowBlock block, VisionWork& work) {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const PackedVisionLayer& packed = packed_.layers[static_cast<size_t>(layer)];
  for (int i = 0; i < block.count; ++i) {
    norm_row(stream(block.first + i), weights.input_norm.data(), config_.hidden, config_.norm_epsilon,
             work.normed.row(i));
  }
  work.multiply(packed.q, &weights.q, work.normed, block.count, work.first);
  work.multiply(packed.k, &weights.k, work.normed, block.count, work.second);
  work.multiply(packed.v, &weights.v, work.normed, block.count, work.third);
  for (int i = 0; i < block.count; ++i) {
    const int patch = block.first + i;
    float *q = work.first.row(i), *k = work.second.row(i), *v = work.third.row(i);
    finish_heads(weights, patch, q, k, v);
    if (narrow_) {
      store_bf16(q, config_.q_size(), reinterpret_cast<uint16_t*>(query(patch)));
    } else {
      std::memcpy(query(patch), q, static_cast<size_t>(config_.q_size()) * sizeof(float));
    }
    kv_.put(patch, k, v);
  }
}

void CpuVisionEncoder::finish_heads(const VisionLayerWeights& weights, int patch, float* q, float* k,
                                    float* v) const {
  const int hd = config_.head_dim, half = hd / 2, pairs = hd / 4;
  const int column = patch % columns_ * pairs, row = patch / columns_ * pairs;
  for (int at = 0; at < config_.q_size(); at += hd) {
    norm_row(v + at, nullptr, hd, config_.norm_epsilon, v + at);
    norm_row(q + at, weights.q_norm.data(), hd, config_.norm_epsilon, q + at);
    norm_row(k + at, weights.k_norm.data(), hd, config_.norm_epsilon, k + at);
    // Half of a head turns with the column, half with the row.
    for (float* head : {q + at, k + at}) {
      rotate_row(head, pairs, pairs, cosines_ + column, sines_ + column);
      rotate_row(head + half, pairs, pairs, cosines_ + row, sines_ + row);
    }
  }
}

void CpuVisionEncoder::pool_rows(RowBlock block, VisionWork& work) {
  const int side = config_.pool_side, per_line = columns_ / side, d = config_.hidden;
  const float factor = std::sqrt(static_cast<float>(d)) / static_cast<float>(side * side);
  for (int i = 0; i < block.count; ++i) {
    const int top = (block.first + i) / per_line * side, left = (block.first + i) % per_line * side;
    float* sum = work.first.row(i);
    std::memset(sum, 0, static_cast<size_t>(d) * sizeof(float));
    for (int y = top; y < top + side; ++y) {
      for (int x = left; x < left + side; ++x) add_scaled_row(stream(y * columns_ + x), 1, d, sum);
    }
    scale_row(sum, factor, d);
    for (int at = 0; config_.standardise && at < d; ++at) {
      const auto k = static_cast<size_t>(at);
      sum[at] = (sum[at] - weights_.std_bias[k]) * weights_.std_scale[k];
    }
  }
}

void CpuVisionEncoder::project(RowBlock block, VisionWork& work) {
  for (int i = 0; i < block.count; ++i) {
    norm_row(work.first.row(i), nullptr, config_.hidden, config_.norm_epsilon, work.normed.row(i));
  }
  work.multiply(packed_.projection, nullptr, work.normed, block.count, work.second);
  const auto width = static_cast<size_t>(config_.text_hidden);
  for (int i = 0; i < block.count; ++i) {
    std::memcpy(&soft_[static_cast<size_t>(block.first + i) * width], work.second.row(i),
                width * sizeof(float));
  }
}

void CpuVisionEncoder::show(const VisionPhase& phase, RowBlock block, const VisionWork& work) {
  const std::lock_guard lock(observe_mutex_);
  const auto send = [&](int cols, const float* data, int64_t stride) {
    observe({phase, block.first, block.count, cols, data, stride});
  };
  switch (phase.output) {
    case VisionField::kStream: return send(config_.hidden, stream(block.first), config_.hidden);
    case VisionField::kQuery:
    case VisionField::kAttended: return send(config_.q_size(), work.first.data, work.first.stride);
    case VisionField::kActivated: return send(config_.intermediate, work.first.data, work.first.stride);
    case VisionField::kPooled: return send(config_.hidden, work.first.data, work.first.stride);
    case VisionField::kSoft: return send(config_.text_hidden, work.second.data, work.second.stride);
  }
}

}  // namespace

std::unique_ptr<ObservableEncoder> load_vision(ThreadPool& pool, const CpuOptions& options,
                                               const model::VisionConfig& config,
                                               const model::VisionWeights& weights) {
  return std::make_unique<CpuVisionEncoder>(pool, options, config, weights);
}

}  // namespace slip::backend::cpu
