// An encoder without a network: the soft row i of an item holds the mean of its patches plus i. It works through
// one patch a slice, so that tests see what happens between slices.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/encoder.h"
#include "base/error.h"

namespace slip::test {

class FakeEncoder final : public backend::Encoder {
 public:
  explicit FakeEncoder(int hidden, int max_patches = 64) : hidden_(hidden), max_patches_(max_patches) {}

  void begin(const backend::EncoderInput& input) override {
    if (input.columns * input.rows > max_patches_)
      fail_usage("{} patches are more than the {} this encoder takes", input.columns * input.rows,
                 max_patches_);
    patches_.assign(input.patches.begin(), input.patches.end());
    soft_rows_ = input.soft_rows;
    left_ = input.columns * input.rows;
  }
  backend::SoftRowsHandle run_slice(double) override {
    ++slices;
    if (--left_ > 0) return nullptr;
    const float mean = std::accumulate(patches_.begin(), patches_.end(), 0.0f) /
                       static_cast<float>(std::max<size_t>(patches_.size(), 1));
    std::vector<float> rows;
    for (int i = 0; i < soft_rows_; ++i)
      rows.insert(rows.end(), static_cast<size_t>(hidden_), mean + static_cast<float>(i));
    return std::make_shared<backend::HostSoftRows>(std::move(rows), hidden_);
  }
  void cancel() override { left_ = 0; }
  double progress() const override { return left_ > 0 ? 0 : 1; }
  int max_patches() const override { return max_patches_; }
  size_t resident_bytes() const override { return 0; }

  int slices = 0;

 private:
  const int hidden_, max_patches_;
  std::vector<float> patches_;
  int soft_rows_ = 0, left_ = 0;
};

}  // namespace slip::test
