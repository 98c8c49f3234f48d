// TraceFile: the phases that `bench` timed as a file for chrome://tracing or Perfetto. Each width is a row of
// its own; a phase lasts as long as it did on average, and they follow one another from zero, as they do in a
// step.
#pragma once

#include <fstream>
#include <span>
#include <string>

#include "cli/commands/bench_run.h"

namespace slip::cli {

class TraceFile {
 public:
  /// Opens it at once, before anything is measured; an empty path means no trace.
  explicit TraceFile(const std::string& path);
  void write(std::span<const WidthResult> widths);

 private:
  std::string path_;
  std::ofstream file_;
};

/// What is written.
std::string trace_json(std::span<const WidthResult> widths);

}  // namespace slip::cli
