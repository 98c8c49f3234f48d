// A bar on stderr for work that takes longer than a second, drawn only when stderr is a terminal and wiped
// when the work is done, so that short loads and log files never see it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace slip::cli {

/// The bar's line: "loading [#####.....]  52 %  1.4 / 2.6 GiB  3 s left"; a pure function, tested as such.
enum class BarUnit { kBytes, kThings };
std::string bar_text(const std::string& what, size_t done, size_t total, double elapsed_seconds,
                     BarUnit unit = BarUnit::kBytes);

class ProgressBar {
 public:
  explicit ProgressBar(std::string what, BarUnit unit = BarUnit::kBytes);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Cheap: draws ten times a second at most.
  void update(size_t done, size_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  BarUnit unit_;
  bool visible_;
  bool drawn_ = false;
  Clock::time_point start_, next_;
};

}  // namespace slip::cli
