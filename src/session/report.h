// Report: how fast a reply was, and how that compares with what the memory can deliver. Data; what people read of
// it is made by whoever shows it.
#pragma once

#include "engine/stats.h"
#include "session/model.h"

namespace slip::session {

struct Report {
  engine::Stats stats;
  double bytes_per_pass = 0;  // read by a decode step: weights, and the cache at the middle of the answer
  double read_bandwidth = 0;  // bytes per second measured in this process; 0 = not measured

  double prompt_rate() const;  // tokens per second
  double decode_rate() const;  // 0 when only one token was written
  double pass_rate() const;    // passes per second; several tokens may come out of one
  double decode_bandwidth() const { return pass_rate() * bytes_per_pass; }
};

/// Measures the read bandwidth too, which takes a moment, unless nothing was decoded.
Report measure(Model& model, const engine::Stats& stats);

}  // namespace slip::session
