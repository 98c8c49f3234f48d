#include "session/delta_queue.h"

namespace slip::session {

OwnedDelta::OwnedDelta(const engine::Delta& delta)
    : delta_(delta),
      events_(delta.events.begin(), delta.events.end()),
      top_(delta.top.begin(), delta.top.end()),
      rejected_(delta.rejected.begin(), delta.rejected.end()),
      error_(delta.error) {
  if (delta.stats != nullptr) stats_ = *delta.stats;
}

engine::Delta OwnedDelta::view() const {
  engine::Delta delta = delta_;
  delta.events = events_;
  delta.top = top_;
  delta.rejected = rejected_;
  delta.error = error_;
  delta.stats = stats_ ? &*stats_ : nullptr;
  return delta;
}

void DeltaQueue::push(const engine::Delta& delta) {
  OwnedDelta owned(delta);
  // Notified under the lock: whoever pops the last delta may destroy the queue at once.
  const std::lock_guard lock(mutex_);
  deltas_.push_back(std::move(owned));
  arrived_.notify_one();
}

std::optional<OwnedDelta> DeltaQueue::pop(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (!arrived_.wait_for(lock, wait, [this] { return !deltas_.empty(); })) return std::nullopt;
  OwnedDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
  return delta;
}

}  // namespace slip::session
