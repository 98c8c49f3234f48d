// Admission: who may come in. A request past the queue is told when to come back, by what the engine was measured to do;
// one whose deadline cannot be met is told so at once. Refusals never say what others are doing. Pure arithmetic over a
// snapshot of the load.
#pragma once

#include <optional>

#include "engine/stats.h"
#include "server/api/error.h"

namespace slip::server::api {

struct AdmissionLimits {
  int queue = 64;          // replies that may wait beside those that run
  int request_tokens = 0;  // prompt and answer of a request; 0 = the context
  double deadline_s = 0;   // of every request; 0 = none
};

/// What is on its way, as the server counts it.
struct Backlog {
  int replies = 0;           // running or waiting
  double prompt_tokens = 0;  // not read yet
  double answer_tokens = 0;  // that may still be written
};

/// Seconds until a place is free, for Retry-After: at least 1, at most 120; 1 where nothing was measured.
int retry_after(const engine::Load& load, const Backlog& backlog);

struct Newcomer {
  int replies = 1;
  double prompt_tokens = 0;
  std::optional<double> deadline_s = {};
};

/// Throws ApiError 429 when the queue is full, 503 when the first token cannot come before the deadline.
void admit(const AdmissionLimits& limits, const engine::Load& load, const Backlog& backlog,
           const Newcomer& newcomer);

}  // namespace slip::server::api
