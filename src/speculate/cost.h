// CostCurve: seconds by number of rows, learnt from measurements as they come.
//
// Care against noise: the first sample of a width is thrown away (it pays for cold caches and first
// allocations), the second and third give their smaller one, later ones move the value by a step that
// shrinks to a tenth of the difference, counted as 25 % of the value at most. More rows never cost less: a
// width is not taken for dearer than a wider one that was measured.
//
// Widths without measurement lie on a line between measured ones; beyond the widest, on a
// line at least as steep as the curve so far.
#pragma once

#include <array>
#include <cstddef>

namespace slip::speculate {

class CostCurve {
 public:
  // Single rows up to kExact, then steps of kCoarse.
  static constexpr int kExact = 64, kCoarse = 16, kMostRows = 1024;

  /// `slope`: what a row more is taken to cost before two widths were measured, as a share of the first.
  explicit CostCurve(double slope = 0.15) : slope_(slope) {}

  void add(int rows, double seconds);
  bool measured() const { return narrowest_ > 0; }
  /// The narrowest and widest measured; 0 without any.
  int narrowest() const { return narrowest_; }
  int widest() const { return widest_; }
  /// Whether this width was measured too seldom to believe it: a single sample may be anything.
  bool doubtful(int rows) const;
  /// Seconds; needs measured().
  double at(int rows) const;

 private:
  struct Cell {
    double seconds = 0;
    double floor = 0;  // of this and all wider ones
    int samples = 0;
  };
  static constexpr size_t kCells = kExact + (kMostRows - kExact) / kCoarse;
  static size_t index(int rows);
  static int rows_of(size_t index);
  void settle_floors();
  double beyond(int rows) const;

  std::array<Cell, kCells> cells_;
  double slope_;
  int narrowest_ = 0, widest_ = 0;
};

}  // namespace slip::speculate
