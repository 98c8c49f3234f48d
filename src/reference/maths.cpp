#include "reference/maths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/float16.h"

namespace slip::reference {

namespace {

/// Summed in double: a chain of draft steps multiplies rounding errors, and a reference must add fewer than
/// what it judges.
float dot(const float* a, const float* b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

}  // namespace

float gelu_tanh(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + std::tanh(inner));
}

float silu(float x) {
  return x / (1.0f + std::exp(-x));
}

void add(Row& to, const Row& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

void scale(Row& row, float factor) {
  for (float& x : row) x *= factor;
}

void round_to_bf16(Row& row) {
  for (float& x : row) x = slip::round_to_bf16(x);
}

void softcap(Row& row, float cap) {
  if (cap <= 0) return;
  for (float& x : row) x = cap * std::tanh(x / cap);
}

void normalise(float* x, int count, float epsilon) {
  double squares = 0;
  for (int i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * x[i];
  const float factor = static_cast<float>(1.0 / std::sqrt(squares / count + epsilon));
  for (int i = 0; i < count; ++i) x[i] *= factor;
}

Row norm(const Row& x, const Row& weight, float epsilon) {
  SLIP_CHECK(x.size() == weight.size());
  Row y = x;
  normalise(y.data(), static_cast<int>(y.size()), epsilon);
  for (size_t i = 0; i < y.size(); ++i) y[i] *= weight[i];
  return y;
}

void norm_heads(Row& row, int head_dim, const Row* weight, float epsilon) {
  for (size_t head = 0; head < row.size(); head += static_cast<size_t>(head_dim)) {
    normalise(&row[head], head_dim, epsilon);
    if (weight == nullptr) continue;
    for (int i = 0; i < head_dim; ++i)
      row[head + static_cast<size_t>(i)] *= (*weight)[static_cast<size_t>(i)];
  }
}

void rotate_heads(Row& row, const model::LayerConfig& layer, int position) {
  const int half = layer.head_dim / 2;
  for (size_t at = 0; at < row.size(); at += static_cast<size_t>(layer.head_dim)) {
    float* head = &row[at];
    for (int i = 0; i < layer.rotated_pairs; ++i) {
      const double angle = position * model::Config::rope_frequency(layer, i);
      const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
      const float a = head[i], b = head[i + half];
      head[i] = a * c - b * s;
      head[i + half] = b * c + a * s;
    }
  }
}

Row attend(const Row& query, const model::LayerConfig& layer, const KeyValues& stored, int first, int end) {
  SLIP_CHECK(first < end && static_cast<size_t>(end) <= stored.keys.size());
  const int hd = layer.head_dim;
  Row attended(query.size(), 0.0f);
  for (int h = 0; h < layer.heads; ++h) {
    const float* head = &query[static_cast<size_t>(h * hd)];
    const auto kv = static_cast<size_t>(h / (layer.heads / layer.kv_heads) * hd);
    Row scores;
    for (int t = first; t < end; ++t) {
      const float* key = &stored.keys[static_cast<size_t>(t)][kv];
      scores.push_back(dot(head, key, static_cast<size_t>(hd)));
    }
    const float highest = *std::max_element(scores.begin(), scores.end());
    float total = 0;
    for (float& score : scores) total += score = std::exp(score - highest);
    float* out = &attended[static_cast<size_t>(h * hd)];
    for (int t = first; t < end; ++t) {
      const float share = scores[static_cast<size_t>(t - first)] / total;
      const float* value = &stored.values[static_cast<size_t>(t)][kv];
      for (int i = 0; i < hd; ++i) out[i] += share * value[i];
    }
  }
  return attended;
}

std::vector<int> largest(const Row& values, int count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

Row read_row(const model::Matrix& matrix, int64_t row) {
  Row values(static_cast<size_t>(matrix.cols));
  tensor::RowReader(matrix).floats(row, values.data());
  return values;
}

void round_activations(Row& row, ActivationRounding rounding) {
  if (rounding == ActivationRounding::kNone) return;
  constexpr size_t kBlock = 64;
  const float codes = rounding == ActivationRounding::kBits8 ? 127.0f : 32639.0f;
  for (size_t at = 0; at < row.size(); at += kBlock) {
    const size_t end = std::min(at + kBlock, row.size());
    float largest = 0;
    for (size_t i = at; i < end; ++i) largest = std::max(largest, std::abs(row[i]));
    if (largest == 0) continue;
    const float step = largest / codes;
    for (size_t i = at; i < end; ++i) row[i] = std::nearbyint(row[i] / step) * step;
  }
}

Row Tables::multiply(const model::Matrix& matrix, const Row& x, int64_t first_row, int64_t rows) {
  SLIP_CHECK(matrix.present() && static_cast<int64_t>(x.size()) == matrix.cols);
  std::vector<float>& table = tables_[&matrix];
  if (table.empty()) {
    table.resize(static_cast<size_t>(matrix.rows * matrix.cols));
    tensor::RowReader reader(matrix);
    for (int64_t r = 0; r < matrix.rows; ++r) reader.floats(r, &table[static_cast<size_t>(r * matrix.cols)]);
  }
  Row rounded;
  if (matrix.bits < 16 && rounding != ActivationRounding::kNone) {
    rounded = x;
    round_activations(rounded, rounding);
  }
  const float* factors = rounded.empty() ? x.data() : rounded.data();
  Row y(static_cast<size_t>(rows < 0 ? matrix.rows : rows));
  for (size_t r = 0; r < y.size(); ++r) {
    const float* row = &table[(static_cast<size_t>(first_row) + r) * x.size()];
    y[r] = dot(factors, row, x.size());
  }
  if (disturb) disturb(y);
  return y;
}

}  // namespace slip::reference
