#include "cli/commands/pull_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/terminal/display_width.h"
#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr int kBar = 20;
constexpr int kMostNameColumns = 40;
constexpr int kMostFiles = 8;
constexpr auto kBetweenLines = std::chrono::seconds(10);
constexpr auto kBetweenEvents = std::chrono::seconds(1);

double share_of(uint64_t there, uint64_t total) {
  return total == 0 ? 1 : static_cast<double>(there) / static_cast<double>(total);
}

std::string time_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e9));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

/// The text in so many columns: padded, or its start given up, since names of shards differ at their end.
std::string in_columns(const std::string& text, int columns) {
  size_t from = 0;
  const int all = columns_of(text);
  for (int left = all; left > columns && from < text.size();) {
    const Cluster first = first_cluster(std::string_view(text).substr(from));
    from += first.bytes;
    left -= first.columns;
  }
  const std::string shown = text.substr(from);
  return shown + std::string(static_cast<size_t>(std::max(0, columns - columns_of(shown))), ' ');
}

std::string bar_of(double share) {
  const int filled = static_cast<int>(share * kBar);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kBar - filled);
}

std::string line_of(const std::string& name, int columns, uint64_t there, uint64_t total) {
  const double share = share_of(there, total);
  return fmt::format("{}  {} {:3.0f} %  {} of {}", in_columns(name, columns), bar_of(share), 100 * share,
                     bytes_text(there), bytes_text(total));
}

struct Size {
  int rows = 24, columns = 80;
};

Size size_of_terminal() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_row, size.ws_col};
}

class Bars final : public hub::Listener {
 public:
  ~Bars() override = default;

  void on_progress(const hub::Progress& progress) override {
    const Size size = size_of_terminal();
    const auto lines = bar_lines(progress, size.rows, size.columns);
    std::string text = to_the_top();
    for (const std::string& line : lines) text += line + "\x1b[K\n";
    write_err(text + "\x1b[J");
    drawn_ = static_cast<int>(lines.size());
    if (progress.there == progress.total) drawn_ = 0;  // what comes next stands below
  }
  void on_notice(const std::string& text) override {
    write_err(to_the_top() + "\x1b[J" + escaped(text) + "\n");
    drawn_ = 0;
  }

 private:
  std::string to_the_top() const { return drawn_ == 0 ? "" : fmt::format("\x1b[{}A\r", drawn_); }
  int drawn_ = 0;
};

class Lines final : public hub::Listener {
 public:
  void on_progress(const hub::Progress& progress) override {
    const auto now = Clock::now();
    const bool whole = progress.there == progress.total;
    if (whole ? done_ : now < next_) return;
    done_ = whole;
    next_ = now + kBetweenLines;
    write_err(sum_text(progress) + "\n");
  }
  void on_notice(const std::string& text) override { write_err(escaped(text) + "\n"); }

 private:
  bool done_ = false;
  Clock::time_point next_ = Clock::now() + kBetweenLines;
};

class Events final : public hub::Listener {
 public:
  void on_progress(const hub::Progress& progress) override {
    const auto now = Clock::now();
    if (now < next_ && progress.there < progress.total) return;
    next_ = now + kBetweenEvents;
    ordered_json event = {{"event", "progress"},
                          {"there", progress.there},
                          {"bytes", progress.total},
                          {"fetched", progress.fetched},
                          {"bytes_per_second", static_cast<uint64_t>(progress.rate)}};
    if (progress.seconds_left) event["seconds_left"] = *progress.seconds_left;
    event["files"] = ordered_json::array();
    for (const hub::FileProgress& file : progress.files) event["files"].push_back(json_of(file));
    write(event);
  }
  void on_file_done(const hub::FileProgress& file) override {
    ordered_json event = {{"event", "file"}};
    event.update(json_of(file));
    write(event);
  }
  void on_notice(const std::string& text) override { write({{"event", "notice"}, {"text", text}}); }

 private:
  static ordered_json json_of(const hub::FileProgress& file) {
    return {{"repository", file.repository},
            {"path", file.path},
            {"bytes", file.size},
            {"there", file.there},
            {"done", file.done}};
  }
  static void write(const ordered_json& event) {
    write_out(event.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  }
  Clock::time_point next_ = Clock::now();
};

}  // namespace

std::string sum_text(const hub::Progress& progress) {
  std::string text = fmt::format("{:3.0f} %  {} of {}  {}/s", 100 * share_of(progress.there, progress.total),
                                 bytes_text(progress.there), bytes_text(progress.total),
                                 bytes_text(static_cast<size_t>(progress.rate)));
  if (progress.seconds_left && progress.there < progress.total)
    text += fmt::format("  {} left", time_text(*progress.seconds_left));
  return text;
}

std::vector<std::string> bar_lines(const hub::Progress& progress, int rows, int columns) {
  std::vector<const hub::FileProgress*> open;
  for (const hub::FileProgress& file : progress.files) {
    if (!file.done) open.push_back(&file);
  }
  // Those that are under way first; the order of the download otherwise.
  std::stable_partition(open.begin(), open.end(), [](const auto* file) { return file->there > 0; });
  const size_t room = static_cast<size_t>(std::clamp(rows - 3, 1, kMostFiles));
  const size_t more = open.size() - std::min(open.size(), room);
  open.resize(open.size() - more);
  int name_columns = 3;
  for (const auto* file : open) name_columns = std::max(name_columns, columns_of(escaped(file->path)));
  // A bar, its share and two sizes take about 54 columns.
  name_columns = std::min({name_columns, kMostNameColumns, std::max(8, columns - 56)});
  std::vector<std::string> lines;
  for (const auto* file : open)
    lines.push_back(line_of(escaped(file->path), name_columns, file->there, file->size));
  if (more > 0) lines.push_back(fmt::format("and {} more files", more));
  lines.push_back(fmt::format("{}  {} {}", in_columns("all", name_columns),
                              bar_of(share_of(progress.there, progress.total)), sum_text(progress)));
  // A line that the terminal breaks would be counted as one and drawn as two.
  for (std::string& line : lines) {
    while (columns_of(line) >= columns && !line.empty()) line.resize(cluster_before(line, line.size()));
  }
  return lines;
}

std::unique_ptr<hub::Listener> make_pull_progress(Output output) {
  if (output == Output::kJson) return std::make_unique<Events>();
  if (stderr_is_terminal()) return std::make_unique<Bars>();
  return std::make_unique<Lines>();
}

}  // namespace slip::cli
