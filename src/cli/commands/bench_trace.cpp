#include "cli/commands/bench_trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace slip::cli {

using nlohmann::ordered_json;

std::string trace_json(std::span<const WidthResult> widths) {
  ordered_json events = ordered_json::array();
  for (const WidthResult& at : widths) {
    events.push_back(
        {{"name", "thread_name"},
         {"ph", "M"},
         {"pid", 1},
         {"tid", at.width},
         {"args", {{"name", fmt::format("a step of {} row{}", at.width, at.width == 1 ? "" : "s")}}}});
    double start = 0;  // microseconds
    for (const auto& phase : at.phases) {
      if (phase.within) continue;
      const double duration = phase.seconds * 1e6;
      ordered_json event = {{"name", phase.name},
                            {"ph", "X"},
                            {"pid", 1},
                            {"tid", at.width},
                            {"ts", start},
                            {"dur", duration},
                            {"args", {{"bytes", phase.bytes}}}};
      if (phase.layer >= 0) event["args"]["layer"] = phase.layer;
      events.push_back(std::move(event));
      start += duration;
    }
  }
  return ordered_json({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}}).dump() + "\n";
}

TraceFile::TraceFile(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) fail_usage("--trace {}: cannot be written; choose another place", path_);
}

void TraceFile::write(std::span<const WidthResult> widths) {
  if (path_.empty()) return;
  file_ << trace_json(widths);
  file_.close();
  if (!file_) fail(ErrorKind::kRuntime, "--trace {}: could not be written; is the disk full?", path_);
}

}  // namespace slip::cli
