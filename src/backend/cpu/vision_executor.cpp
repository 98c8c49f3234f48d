#include "backend/cpu/vision_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace slip::backend::cpu {

using model::VisionField;
using model::VisionKind;
using model::VisionPhase;
using model::VisionPhaseKind;

VisionExecutor::VisionExecutor(ThreadPool& pool, bool narrow, const model::VisionConfig& config,
                               const model::VisionWeights& weights)
    : pool_(pool),
      narrow_(narrow),
      config_(config),
      weights_(weights),
      program_(build_vision_program(config, weights)),
      packed_(pack_vision(weights, pool)) {
  Carver counter;
  plan_memory(counter);
  memory_ = Buffer(counter.used(), "an image");
  Carver placer(memory_.data());
  plan_memory(placer);
  for (int t = 0; t < pool.size(); ++t) {
    position_readers_.push_back(std::make_unique<tensor::RowReader>(weights.positions));
  }
}

void VisionExecutor::plan_memory(Carver& carver) {
  const auto patches = static_cast<size_t>(max_patches());
  patches_ = carver.allocate<float>(patches * static_cast<size_t>(config_.patch_values()));
  work_.clear();
  for (int t = 0; t < pool_.size(); ++t) work_.emplace_back(carver, config_, narrow_);
  if (config_.kind == VisionKind::kUnified) return;
  stream_ = carver.allocate<float>(patches * static_cast<size_t>(config_.hidden));
  queries_ = carver.allocate<std::byte>(patches * static_cast<size_t>(config_.q_size()) * (narrow_ ? 2 : 4));
  kv_ = ImageKv(carver, config_.heads, config_.head_dim, max_patches(), narrow_);
  const auto angles = static_cast<size_t>(config_.positions) * static_cast<size_t>(config_.head_dim / 4);
  cosines_ = carver.allocate<float>(angles);
  sines_ = carver.allocate<float>(angles);
}

void VisionExecutor::fill_rotary(int positions) {
  const int pairs = config_.head_dim / 4;
  for (; rotary_filled_ < positions; ++rotary_filled_) {
    for (int i = 0; i < pairs; ++i) {
      const double angle = rotary_filled_ * config_.rope_frequency(i);
      cosines_[rotary_filled_ * pairs + i] = static_cast<float>(std::cos(angle));
      sines_[rotary_filled_ * pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void VisionExecutor::take(const EncoderInput& input) {
  columns_ = input.columns;
  patch_count_ = input.columns * input.rows;
  soft_count_ = input.soft_rows;
  soft_.assign(static_cast<size_t>(soft_count_) * static_cast<size_t>(config_.text_hidden), 0.0f);
  if (config_.kind == VisionKind::kTower) {
    kv_.resize(patch_count_);
    fill_rotary(std::max(input.columns, input.rows));
  }
  const auto values = static_cast<size_t>(config_.patch_values());
  pool_.run([&](int thread) {
    for (int64_t i = pool_.next(thread, patch_count_); i >= 0; i = pool_.next(thread, patch_count_)) {
      const size_t at = static_cast<size_t>(i) * values;
      std::memcpy(patches_ + at, input.patches.data() + at, values * sizeof(float));
    }
  });
}

void VisionExecutor::run(const VisionPhase& phase, RowBlock block, int thread,
                         const std::function<void(const ObservableEncoder::Block&)>& observe) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  switch (phase.kind) {
    case VisionPhaseKind::kPatches:
      config_.kind == VisionKind::kTower ? embed_patches(block, thread) : embed_tiles(block, thread);
      break;
    case VisionPhaseKind::kQkv: qkv(phase.layer, block, work); break;
    case VisionPhaseKind::kAttend: attend(block, work); break;
    case VisionPhaseKind::kAttentionOut: attention_out(phase.layer, block, work); break;
    case VisionPhaseKind::kGateUp: gate_up(phase.layer, block, work); break;
    case VisionPhaseKind::kDown: down(phase.layer, block, work); break;
    case VisionPhaseKind::kPool: pool(block, work); break;
    case VisionPhaseKind::kProject: project(block, work); break;
  }
  if (observe) show(phase, block, work, observe);
}

void VisionExecutor::show(const VisionPhase& phase, RowBlock block, const VisionWork& work,
                          const std::function<void(const ObservableEncoder::Block&)>& observe) {
  const std::lock_guard lock(observe_mutex_);
  const auto send = [&](int cols, const FloatRows& rows) {
    observe({phase, block.first, block.count, cols, rows.data, rows.stride});
  };
  switch (phase.output) {
    case VisionField::kStream: return send(config_.hidden, {stream(block.first), config_.hidden});
    case VisionField::kQuery:
    case VisionField::kAttended: return send(config_.q_size(), work.first);
    case VisionField::kActivated: return send(config_.intermediate, work.first);
    case VisionField::kPooled: return send(config_.hidden, work.first);
    case VisionField::kSoft: return send(config_.text_hidden, work.second);
  }
}

}  // namespace slip::backend::cpu
