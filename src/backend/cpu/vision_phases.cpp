// The phases of vision_executor.h, each over a block of rows on one thread. Their results lie in `first` of
// the thread's work (of kProject in `second`), or in the stream.
#include <cmath>
#include <cstring>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/vision_executor.h"

namespace slip::backend::cpu {

using model::VisionLayerWeights;

namespace {

/// The sum of f(x) in double: a tile has 6,912 values. Eight sums, because one would wait for itself.
template <typename F>
double sum_of(const float* x, int count, F f) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int s = 0; s < kSums; ++s) sums[s] += f(x[i + s]);
  }
  for (; i < count; ++i) sums[0] += f(x[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

void layer_norm(const float* x, int count, const model::LayerNormWeights& weights, float epsilon,
                float* out) {
  const double mean = sum_of(x, count, [](float v) { return double{v}; }) / count;
  const double squares = sum_of(x, count, [mean](float v) { return (v - mean) * (v - mean); });
  const double factor = 1 / std::sqrt(squares / count + epsilon);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    out[i] = static_cast<float>((x[i] - mean) * factor) * weights.weight[at] + weights.bias[at];
  }
}

}  // namespace

void VisionExecutor::add_position(int patch, int thread, float* row) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  tensor::RowReader& reader = *position_readers_[static_cast<size_t>(thread)];
  float *x = work.third.row(0), *y = work.third.row(1);
  reader.floats(position_row(config_, 0, patch % columns_), x);
  reader.floats(position_row(config_, 1, patch / columns_), y);
  for (int i = 0; i < config_.hidden; ++i) row[i] += x[i] + y[i];
}

void VisionExecutor::add_normed(const FloatRows& rows, const model::Vector& norm, RowBlock block) const {
  for (int i = 0; i < block.count; ++i) {
    add_norm_row(rows.row(i), norm.data(), config_.hidden, config_.norm_epsilon, stream(block.first + i));
  }
}

void VisionExecutor::norm_streams(const model::Vector& norm, RowBlock block, const FloatRows& out) const {
  for (int i = 0; i < block.count; ++i) {
    norm_row(stream(block.first + i), norm.data(), config_.hidden, config_.norm_epsilon, out.row(i));
  }
}

void VisionExecutor::embed_patches(RowBlock block, int thread) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  for (int i = 0; i < block.count; ++i) {
    const float* values = values_of(block.first + i);
    float* to = work.normed.row(i);
    for (int v = 0; v < config_.patch_values(); ++v) to[v] = 2 * (values[v] - 0.5f);
  }
  work.multiply(packed_.patch, nullptr, work.normed, block.count, work.first);
  for (int i = 0; i < block.count; ++i) {
    const int patch = block.first + i;
    add_position(patch, thread, work.first.row(i));
    std::memcpy(stream(patch), work.first.row(i), static_cast<size_t>(config_.hidden) * sizeof(float));
  }
}

void VisionExecutor::embed_tiles(RowBlock block, int thread) {
  VisionWork& work = work_[static_cast<size_t>(thread)];
  const float epsilon = config_.layer_norm_epsilon;
  for (int i = 0; i < block.count; ++i) {
    layer_norm(values_of(block.first + i), config_.patch_values(), weights_.tile_norm, epsilon,
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

void VisionExecutor::qkv(int layer, RowBlock block, VisionWork& work) {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const PackedVisionLayer& packed = packed_.layers[static_cast<size_t>(layer)];
  norm_streams(weights.input_norm, block, work.normed);
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

void VisionExecutor::finish_heads(const VisionLayerWeights& weights, int patch, float* q, float* k,
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

void VisionExecutor::attend(RowBlock block, VisionWork& work) const {
  attend_image(kv_, query(block.first), config_.q_size(), block.count, work.attend, work.first.data,
               work.first.stride);
}

void VisionExecutor::attention_out(int layer, RowBlock block, VisionWork& work) const {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  work.multiply(packed_.layers[static_cast<size_t>(layer)].o, &weights.o, work.first, block.count,
                work.second);
  add_normed(work.second, weights.post_attention_norm, block);
}

void VisionExecutor::gate_up(int layer, RowBlock block, VisionWork& work) const {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const PackedVisionLayer& packed = packed_.layers[static_cast<size_t>(layer)];
  norm_streams(weights.pre_mlp_norm, block, work.normed);
  work.multiply(packed.gate, &weights.gate, work.normed, block.count, work.first);
  work.multiply(packed.up, &weights.up, work.normed, block.count, work.second);
  for (int i = 0; i < block.count; ++i) {
    gelu_times_row(work.first.row(i), work.second.row(i), config_.intermediate);
  }
}

void VisionExecutor::down(int layer, RowBlock block, VisionWork& work) const {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  work.multiply(packed_.layers[static_cast<size_t>(layer)].down, &weights.down, work.first, block.count,
                work.second);
  add_normed(work.second, weights.post_mlp_norm, block);
}

void VisionExecutor::pool(RowBlock block, VisionWork& work) const {
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

void VisionExecutor::project(RowBlock block, VisionWork& work) {
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

}  // namespace slip::backend::cpu
