#include "speculate/cost.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace slip::speculate {
namespace {

constexpr int kDiscarded = 1;
constexpr double kLeastStep = 0.1;
constexpr double kMostInnovation = 0.25;

}  // namespace

size_t CostCurve::index(int rows) {
  SLIP_CHECK(rows >= 1);
  if (rows <= kExact) return static_cast<size_t>(rows - 1);
  return static_cast<size_t>(kExact + (std::min(rows, kMostRows) - kExact - 1) / kCoarse);
}

int CostCurve::rows_of(size_t index) {
  const int i = static_cast<int>(index);
  return i < kExact ? i + 1 : kExact + (i - kExact) * kCoarse + kCoarse / 2;
}

void CostCurve::add(int rows, double seconds) {
  Cell& cell = cells_[index(rows)];
  if (cell.samples++ < kDiscarded || !(seconds > 0)) return;
  if (cell.seconds == 0) {
    cell.seconds = seconds;
  } else if (cell.samples == kDiscarded + 2) {
    cell.seconds = std::min(cell.seconds, seconds);
  } else {
    const double most = kMostInnovation * cell.seconds;
    const double step = std::max(kLeastStep, 1.0 / (cell.samples - kDiscarded));
    cell.seconds += step * std::clamp(seconds - cell.seconds, -most, most);
  }
  const int at = rows_of(index(rows));
  narrowest_ = narrowest_ == 0 ? at : std::min(narrowest_, at);
  widest_ = std::max(widest_, at);
  settle_floors();
}

bool CostCurve::doubtful(int rows) const {
  const int samples = cells_[index(rows)].samples;
  return samples > 0 && samples < kDiscarded + 2;
}

void CostCurve::settle_floors() {
  double floor = std::numeric_limits<double>::infinity();
  for (size_t i = index(widest_) + 1; i-- > 0;) {
    if (cells_[i].seconds > 0) floor = std::min(floor, cells_[i].seconds);
    cells_[i].floor = floor;
  }
}

double CostCurve::at(int rows) const {
  SLIP_CHECK(measured());
  rows = std::clamp(rows, narrowest_, kMostRows);
  if (rows > widest_) return beyond(rows);
  size_t left = index(rows), right = left;
  while (cells_[left].seconds == 0 || rows_of(left) > rows) --left;
  while (cells_[right].seconds == 0 || rows_of(right) < rows) ++right;
  const double low = cells_[left].floor, high = cells_[right].floor;
  if (left == right) return low;
  return low + (high - low) * (rows - rows_of(left)) / (rows_of(right) - rows_of(left));
}

double CostCurve::beyond(int rows) const {
  const size_t last = index(widest_), first = index(narrowest_);
  const double end = cells_[last].floor;
  double slope = slope_ * end;
  if (first != last) {
    const double whole = (end - cells_[first].floor) / (widest_ - narrowest_);
    size_t before = last - 1;
    while (cells_[before].seconds == 0) --before;
    const double recent = (end - cells_[before].floor) / (widest_ - rows_of(before));
    // The last piece alone may be noise.
    slope = std::max(whole, std::min(recent, 2 * whole));
  }
  return end + slope * (rows - widest_);
}

}  // namespace slip::speculate
