#include "media/fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip::media {
namespace {

int whole_blocks(double side) {
  return static_cast<int>(std::floor(side / kBlockSide)) * kBlockSide;
}

/// A side of a strip so thin that its short side came to no block at all.
int strip_side(int long_side, int short_side, int budget) {
  return std::min(long_side / short_side, budget) * kBlockSide;
}

Fit fit_budget(int width, int height, int budget) {
  const double target = static_cast<double>(budget) * kBlockSide * kBlockSide;
  const double factor = std::sqrt(target / (static_cast<double>(width) * height));
  Fit out{.width = whole_blocks(factor * width), .height = whole_blocks(factor * height), .budget = budget};
  if (out.height == 0) {
    out.height = kBlockSide;
    out.width = strip_side(width, height, budget);
  } else if (out.width == 0) {
    out.width = kBlockSide;
    out.height = strip_side(height, width, budget);
  }
  out.soft_tokens = (out.width / kBlockSide) * (out.height / kBlockSide);
  out.patches = (out.width / kPatchSide) * (out.height / kPatchSide);
  out.shrunk = out.width < width || out.height < height;
  return out;
}

}  // namespace

bool is_budget(int budget) {
  return budget == kAutoBudget || std::find(kBudgets.begin(), kBudgets.end(), budget) != kBudgets.end();
}

Fit fit(int width, int height, int budget) {
  SLIP_CHECK(width > 0 && height > 0 && is_budget(budget));
  if (budget != kAutoBudget) return fit_budget(width, height, budget);
  for (const int candidate : kBudgets) {
    const Fit out = fit_budget(width, height, candidate);
    if (!out.shrunk) return out;
  }
  return fit_budget(width, height, kLargestBudget);
}

}  // namespace slip::media
