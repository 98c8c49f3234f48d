// VisionExecutor: the phases of a vision tower over blocks of rows, each on one thread, with the packed
// weights and the memory of one image. vision_encoder.h says which blocks run when.
//
// Between phases of different stages rows lie here (stream, queries, keys and values); inside a stage they
// stay in the thread's VisionWork, which the next phase of that block finds as the one before left it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/cpu/image_kv.h"
#include "backend/cpu/packed_vision.h"
#include "backend/cpu/vision_encoder.h"
#include "backend/cpu/vision_work.h"

namespace slip::backend::cpu {

class VisionExecutor {
 public:
  /// Rows of patches or, from pooling on, of soft rows.
  struct RowBlock {
    int first = 0, count = 0;
  };

  VisionExecutor(ThreadPool& pool, bool narrow, const model::VisionConfig& config,
                 const model::VisionWeights& weights);

  /// Copies an image that fits.
  void take(const EncoderInput& input);
  /// One phase of one block, on this thread. `observe` may be empty.
  void run(const model::VisionPhase& phase, RowBlock block, int thread,
           const std::function<void(const ObservableEncoder::Block&)>& observe);
  /// [soft rows, text hidden] of the image that was taken last; they are the caller's from now on.
  std::vector<float> take_soft_rows() { return std::move(soft_); }

  int patches() const { return patch_count_; }
  int soft_rows() const { return soft_count_; }
  int max_patches() const { return kMostSoftRows * config_.patches_per_soft_row(); }
  const model::VisionProgram& program() const { return program_; }
  bool narrow() const { return narrow_; }
  size_t resident_bytes() const { return packed_.memory.size(); }

 private:
  void plan_memory(Carver& carver);
  void fill_rotary(int positions);

  void embed_patches(RowBlock block, int thread);
  void embed_tiles(RowBlock block, int thread);
  void qkv(int layer, RowBlock block, VisionWork& work);
  void finish_heads(const model::VisionLayerWeights& weights, int patch, float* q, float* k, float* v) const;
  void attend(RowBlock block, VisionWork& work) const;
  void attention_out(int layer, RowBlock block, VisionWork& work) const;
  void gate_up(int layer, RowBlock block, VisionWork& work) const;
  void down(int layer, RowBlock block, VisionWork& work) const;
  void pool(RowBlock block, VisionWork& work) const;
  void project(RowBlock block, VisionWork& work);

  /// Adds both position rows of a patch.
  void add_position(int patch, int thread, float* row);
  void add_normed(const FloatRows& rows, const model::Vector& norm, RowBlock block) const;
  void norm_streams(const model::Vector& norm, RowBlock block, const FloatRows& out) const;
  void show(const model::VisionPhase& phase, RowBlock block, const VisionWork& work,
            const std::function<void(const ObservableEncoder::Block&)>& observe);

  float* stream(int patch) const { return stream_ + int64_t{patch} * config_.hidden; }
  std::byte* query(int patch) const {
    return queries_ + int64_t{patch} * config_.q_size() * (narrow_ ? 2 : 4);
  }
  const float* values_of(int patch) const { return patches_ + int64_t{patch} * config_.patch_values(); }

  ThreadPool& pool_;
  const bool narrow_;
  const model::VisionConfig config_;
  const model::VisionWeights& weights_;
  const model::VisionProgram program_;
  const PackedVision packed_;

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

  int columns_ = 0, patch_count_ = 0, soft_count_ = 0;
  std::vector<float> soft_;
  std::mutex observe_mutex_;
};

}  // namespace slip::backend::cpu
