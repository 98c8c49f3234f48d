// Roster: the generating requests that are under way. It decides who comes in, so that counting and entering are one
// step; it knows whom to end when the server goes down; /slots is a view of it. From any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/api/admission.h"
#include "server/api/answer.h"

namespace slip::server::api {

class Roster {
 public:
  explicit Roster(AdmissionLimits limits) : limits_(limits) {}

  /// Takes a place. Throws what admit() throws.
  uint64_t enter(const engine::Load& load, const Newcomer& newcomer, double answer_tokens);
  /// Whose place it is. Without effect when it has been given back already.
  void seat(uint64_t place, const std::shared_ptr<Answer>& answer);
  void leave(uint64_t place);

  size_t size() const;
  int retry_after(const engine::Load& load) const;
  std::vector<AnswerState> states() const;
  /// Ends all with an error.
  void end_all(const ApiError& error);
  /// Until nobody is there. False: not within `most`.
  bool wait_until_empty(std::chrono::milliseconds most);

 private:
  struct Seat {
    Newcomer newcomer;
    double answer_tokens = 0;
    std::weak_ptr<Answer> answer = {};
  };
  Backlog backlog() const;
  std::vector<std::shared_ptr<Answer>> answers() const;

  const AdmissionLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable left_;
  uint64_t next_ = 1;
  std::map<uint64_t, Seat> seats_;
};

}  // namespace slip::server::api
