#include "media/resize.h"

#include <algorithm>
#include <cmath>

namespace slip::media {
namespace {

constexpr double kCubic = -0.5;  // Keys' a
constexpr double kSupport = 2;   // of the cubic, in samples of the coarser grid
constexpr int kMostPrecision = 22;

/// Written in the reference's order of operations: its rounding is part of the result.
double cubic(double x) {
  x = std::fabs(x);
  constexpr double a = kCubic;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// The most fraction bits with which the largest weight still fits into 16 bits.
int precision_for(double largest) {
  int precision = 0;
  while (precision < kMostPrecision && static_cast<int>(0.5 + largest * (1 << (precision + 1))) < (1 << 15)) {
    ++precision;
  }
  return precision;
}

/// Lanes of one step: four vectors of 32-bit sums, which stay in registers on every machine we know.
constexpr size_t kLanes = 16;

/// out[i] = clamp((half + sum over j of weights[j] * in[j * stride + i]) >> precision), i < count.
void mix_rows(const uint8_t* in, size_t stride, const int16_t* weights, int rows, int precision, uint8_t* out,
              size_t count) {
  const int32_t half = 1 << (precision - 1);
  const auto finish = [&](int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255)); };
  size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    int32_t sums[kLanes];
    std::fill_n(sums, kLanes, half);
    for (int j = 0; j < rows; ++j) {
      const uint8_t* row = in + static_cast<size_t>(j) * stride + at;
      const int16_t weight = weights[j];
      for (size_t i = 0; i < kLanes; ++i) sums[i] += static_cast<int16_t>(row[i]) * weight;
    }
    for (size_t i = 0; i < kLanes; ++i) out[at + i] = finish(sums[i]);
  }
  for (; at < count; ++at) {
    int32_t sum = half;
    for (int j = 0; j < rows; ++j) sum += in[static_cast<size_t>(j) * stride + at] * weights[j];
    out[at] = finish(sum);
  }
}

/// A band of rows, transposed: [column][colour][row]. Along a row the horizontal pass would need strided
/// samples; across a band it is the same work as the vertical one.
constexpr int kBand = 16;
constexpr size_t kBandColumn = 3 * kBand;

void load_band(const Pixels& in, int top, int rows, uint8_t* band) {
  for (int r = 0; r < kBand; ++r) {
    const uint8_t* row = in.row(top + std::min(r, rows - 1));
    uint8_t* to = band + r;
    for (size_t i = 0; i < in.stride(); ++i) to[i * kBand] = row[i];
  }
}

void store_band(const uint8_t* band, int top, int rows, Pixels& out) {
  for (int r = 0; r < rows; ++r) {
    uint8_t* row = out.row(top + r);
    for (size_t i = 0; i < out.stride(); ++i) row[i] = band[i * kBand + static_cast<size_t>(r)];
  }
}

Pixels resize_rows(const Pixels& in, int width) {
  const AxisWeights weights(in.width, width);
  Pixels out(width, in.height);
  std::vector<uint8_t> from(kBandColumn * static_cast<size_t>(in.width));
  std::vector<uint8_t> to(kBandColumn * static_cast<size_t>(width));
  for (int top = 0; top < in.height; top += kBand) {
    const int rows = std::min(kBand, in.height - top);
    load_band(in, top, rows, from.data());
    for (int x = 0; x < width; ++x) {
      const auto at = static_cast<size_t>(x);
      mix_rows(from.data() + kBandColumn * static_cast<size_t>(weights.first[at]), kBandColumn, weights.of(x),
               weights.count[at], weights.precision, to.data() + kBandColumn * at, kBandColumn);
    }
    store_band(to.data(), top, rows, out);
  }
  return out;
}

Pixels resize_columns(const Pixels& in, int height) {
  const AxisWeights weights(in.height, height);
  Pixels out(in.width, height);
  for (int y = 0; y < height; ++y) {
    const auto at = static_cast<size_t>(y);
    mix_rows(in.row(weights.first[at]), in.stride(), weights.of(y), weights.count[at], weights.precision,
             out.row(y), in.stride());
  }
  return out;
}

}  // namespace

AxisWeights::AxisWeights(int from, int to) : first(static_cast<size_t>(to)), count(static_cast<size_t>(to)) {
  const double scale = static_cast<double>(from) / to;
  const double widened = std::max(scale, 1.0);
  const double support = kSupport * widened;
  most = static_cast<size_t>(std::ceil(support)) * 2 + 1;
  std::vector<double> exact(most * static_cast<size_t>(to));
  double largest = 0;
  for (int i = 0; i < to; ++i) {
    const auto at = static_cast<size_t>(i);
    const double centre = scale * (i + 0.5);
    const int low = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int high = std::min(static_cast<int>(centre + support + 0.5), from);
    first[at] = low;
    count[at] = std::clamp(high - low, 0, static_cast<int>(most));
    double* row = exact.data() + at * most;
    double total = 0;
    for (int j = 0; j < count[at]; ++j) {
      row[j] = cubic((j + low - centre + 0.5) * (1 / widened));
      total += row[j];
    }
    for (int j = 0; j < count[at]; ++j) {
      if (total != 0) row[j] /= total;
      largest = std::max(largest, row[j]);
    }
  }
  precision = precision_for(largest);
  values.resize(exact.size());
  const double one = 1 << precision;
  for (size_t i = 0; i < exact.size(); ++i) {
    values[i] = static_cast<int16_t>(exact[i] * one + (exact[i] < 0 ? -0.5 : 0.5));
  }
}

Pixels resize(Pixels pixels, int width, int height) {
  if (pixels.width != width) pixels = resize_rows(pixels, width);
  if (pixels.height != height) pixels = resize_columns(pixels, height);
  return pixels;
}

}  // namespace slip::media
