// DeltaQueue: deltas on their way from the engine's thread to another. The engine's side never waits; the other
// side does. Each delta is copied once, since its views end with the call.
//
// It outlives the requests whose sinks it made. Any number of requests may share one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"

namespace slip::session {

/// A delta with all it views.
class OwnedDelta {
 public:
  explicit OwnedDelta(const engine::Delta& delta);
  /// Valid while this lives.
  engine::Delta view() const;

 private:
  engine::Delta delta_;
  std::vector<text::ReplyEvent> events_;
  std::vector<sample::TokenLogprob> top_;
  std::vector<int> rejected_;
  std::string error_;
  std::optional<engine::Stats> stats_;
};

class DeltaQueue {
 public:
  void push(const engine::Delta& delta);
  /// For Request::sink.
  std::function<void(const engine::Delta&)> sink() {
    return [this](const engine::Delta& delta) { push(delta); };
  }
  /// The next delta, or nothing when none comes within `wait`.
  std::optional<OwnedDelta> pop(std::chrono::milliseconds wait);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<OwnedDelta> deltas_;
};

}  // namespace slip::session
