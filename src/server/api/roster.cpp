#include "server/api/roster.h"

namespace slip::server::api {

uint64_t Roster::enter(const engine::Load& load, const Newcomer& newcomer, double answer_tokens) {
  const std::lock_guard lock(mutex_);
  admit(limits_, load, backlog(), newcomer);
  seats_[next_] = {newcomer, answer_tokens};
  return next_++;
}

void Roster::seat(uint64_t place, const std::shared_ptr<Answer>& answer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = seats_.find(place); found != seats_.end()) found->second.answer = answer;
}

void Roster::leave(uint64_t place) {
  const std::lock_guard lock(mutex_);
  seats_.erase(place);
  left_.notify_all();
}

size_t Roster::size() const {
  const std::lock_guard lock(mutex_);
  return seats_.size();
}

int Roster::retry_after(const engine::Load& load) const {
  const std::lock_guard lock(mutex_);
  return api::retry_after(load, backlog());
}

// With the lock held.
Backlog Roster::backlog() const {
  Backlog sum;
  for (const auto& [place, seat] : seats_) {
    const auto answer = seat.answer.lock();
    const int written = answer ? answer->state().written : 0;
    sum.replies += seat.newcomer.replies;
    if (written == 0) sum.prompt_tokens += seat.newcomer.prompt_tokens;
    sum.answer_tokens += std::max(seat.answer_tokens - written, 0.0);
  }
  return sum;
}

std::vector<std::shared_ptr<Answer>> Roster::answers() const {
  std::vector<std::shared_ptr<Answer>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [place, seat] : seats_) {
    if (auto answer = seat.answer.lock()) all.push_back(std::move(answer));
  }
  return all;
}

std::vector<AnswerState> Roster::states() const {
  std::vector<AnswerState> states;
  for (const auto& answer : answers()) states.push_back(answer->state());
  return states;
}

void Roster::end_all(const ApiError& error) {
  for (const auto& answer : answers()) answer->end(error);
}

bool Roster::wait_until_empty(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return left_.wait_for(lock, most, [this] { return seats_.empty(); });
}

}  // namespace slip::server::api
