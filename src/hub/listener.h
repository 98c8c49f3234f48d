// What a pull tells while it works. All calls come on the thread that called pull(), so a listener needs no
// lock, and may take as long as drawing a line takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace slip::hub {

struct FileProgress {
  std::string repository;
  std::string path;
  uint64_t size = 0;
  uint64_t there = 0;  // bytes, of this run or an earlier one
  bool done = false;   // hash checked, in its place
};

struct Progress {
  std::span<const FileProgress> files;
  uint64_t total = 0;
  uint64_t there = 0;
  uint64_t fetched = 0;                     // in this run, bytes fetched twice included
  double rate = 0;                          // bytes a second, lately
  std::optional<double> seconds_left = {};  // without: nothing comes just now
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// At most five times a second, and once at the end.
  virtual void on_progress(const Progress& progress) { static_cast<void>(progress); }
  virtual void on_file_done(const FileProgress& file) { static_cast<void>(file); }
  /// Why it takes longer than it should: waiting for another pull, for a rate limit, a server that fails.
  virtual void on_notice(const std::string& text) { static_cast<void>(text); }
};

}  // namespace slip::hub
