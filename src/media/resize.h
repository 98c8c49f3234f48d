// resize(): bicubic with antialiasing, bit for bit what Hugging Face's image processor computes on a CPU
// (torchvision on 8-bit tensors). Models are sensitive to how they were fed, so this is not a free choice.
//
// Each axis is a pass of its own, horizontal first, with 8-bit results between them; an axis whose length
// stays is skipped. The weights are those of Keys' cubic (a = -0.5), widened when shrinking, computed in
// double, then rounded to 16-bit integers with as many fraction bits as fit. Sums are integers, so their
// order does not matter and vector code gives the same bits as plain code. Cost: 12 multiply-adds per stored
// pixel when shrinking, some 0.1 s for 12 megapixels.
#pragma once

#include <vector>

#include "media/pixels.h"

namespace slip::media {

/// The weights of one axis. Sample i of the output is (sum of weights(i)[j] * input[first[i] + j] + half) >>
/// precision, clamped to 0..255.
struct AxisWeights {
  AxisWeights(int from, int to);
  const int16_t* of(int i) const { return values.data() + static_cast<size_t>(i) * most; }

  size_t most = 0;  // inputs of one output, at most
  int precision = 0;
  std::vector<int> first;
  std::vector<int> count;
  std::vector<int16_t> values;  // [to][most], zero behind count
};

Pixels resize(Pixels pixels, int width, int height);

}  // namespace slip::media
