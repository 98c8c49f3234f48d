#include "cli/terminal/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal/output.h"

namespace slip::cli {

std::string bar_text(const std::string& what, size_t done, size_t total, double elapsed_seconds,
                     BarUnit unit) {
  constexpr int kWidth = 30;
  const double share = total == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto count = [unit](size_t number) {
    return unit == BarUnit::kBytes ? bytes_text(number) : std::to_string(number);
  };
  const int filled = static_cast<int>(share * kWidth);
  std::string text = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} %  {} of {}", what, "", filled, "",
                                 kWidth - filled, share * 100, count(done), count(total));
  // Before a twentieth is done the estimate would jump about.
  if (share >= 0.05) text += fmt::format("  {:.0f} s left", elapsed_seconds * (1 - share) / share);
  return text;
}

ProgressBar::ProgressBar(std::string what, BarUnit unit)
    : what_(std::move(what)),
      unit_(unit),
      visible_(stderr_is_terminal()),
      start_(Clock::now()),
      next_(start_ + std::chrono::seconds(1)) {}

ProgressBar::~ProgressBar() {
  if (drawn_) write_err("\r\x1b[K");
}

void ProgressBar::update(size_t done, size_t total) {
  if (!visible_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  drawn_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  write_err("\r" + bar_text(what_, done, total, elapsed, unit_) + "\x1b[K");
}

}  // namespace slip::cli
