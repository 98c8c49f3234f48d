// Whether a model fits this machine, with which context, and about how fast it will answer: what a person wants
// to know before a download, and beside each name of a list. Arithmetic over the headers, and, for the speed, a
// measurement of the memory that takes some milliseconds and 16 MiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"

namespace slip::session {

struct Fit {
  size_t needed = 0;     // memory, with a context of kShortContext or the model's whole one
  size_t available = 0;  // 0 = unknown
  int64_t context =
      0;  // the longest that fits; 0 = not even the short one. The model's when nothing is known
  int64_t longest = 0;         // that the model was made for
  size_t bytes_per_token = 0;  // read for one token with a short context
  bool fits() const { return context > 0; }
};

inline constexpr int64_t kShortContext = 1024;

Fit fit_of(const checkpoint::Checkpoint& checkpoint, size_t available);

/// Bytes a second that all processors together read from memory, measured over what no cache holds; 0 where the
/// processor offers no way to empty its caches. About: within a third of what `bench` finds.
double quick_read_bandwidth();

/// Answer tokens a second that a fit can expect at a bandwidth, without drafts; 0 = not known.
double expected_speed(const Fit& fit, double bandwidth);

}  // namespace slip::session
