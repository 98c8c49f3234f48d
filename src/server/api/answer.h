// Answer: one generating request on its way, from the model to the client. It owns what must come in order: the deltas
// of all its replies, life signs, the deadline, a client that leaves. All of them are notes in one inbox, and one worker
// at a time reads it, so a ReplyWriter needs no lock.
//
// The engine's thread only puts a delta into the inbox and never waits. A stream's headers go out with its first event,
// so what fails before that is an HTTP error, which a proxy may still try elsewhere. Some APIs begin at once.
//
// It lives until its last reply has ended: sinks, timers and jobs hold it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/api/reply_source.h"
#include "server/api/reply_writer.h"
#include "server/api/timers.h"
#include "server/api/workers.h"
#include "session/delta_queue.h"

namespace slip::server::api {

/// Life signs: after so long without an event.
inline constexpr std::chrono::seconds kFirstLifeSign{9};
inline constexpr std::chrono::seconds kLifeSign{15};

/// The places an answer works in; they outlive it.
struct AnswerPlaces {
  ReplySource& replies;
  Workers& workers;
  Timers& timers;
};

/// What somebody may see of an answer while it is made: /slots.
struct AnswerState {
  std::string id, route, key;
  bool stream = false;
  int prompt_tokens = 0, choices = 1, written = 0;
  int64_t max_tokens = 0;
  double seconds = 0;
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  struct Plan {
    std::shared_ptr<http::Exchange> exchange;
    std::string path;  // whose errors have its API's shape
    std::unique_ptr<ReplyWriter> writer = nullptr;
    RequestRecord record = {};
    std::vector<engine::Request> requests = {};  // without sinks
    std::optional<double> deadline_s = {};
    /// Seconds between two tokens of a reply; from a worker.
    std::function<void(double)> on_token_time = {};
    /// Once, from a worker, when everything has ended.
    std::function<void(const RequestRecord&)> on_done = {};
  };

  /// Submits the requests. Throws what the source throws; nothing was answered then.
  static std::shared_ptr<Answer> start(const AnswerPlaces& places, Plan plan);

  Answer(const AnswerPlaces& places, Plan plan);

  /// From any thread: ends it now, with an error where the client still listens.
  void end(ApiError error);
  AnswerState state() const;

 private:
  struct Token {
    size_t index;
    session::OwnedDelta delta;
    Timers::Time at;
  };
  struct Begin {};
  struct LifeSign {};
  struct Gone {};  // the client
  struct End {
    ApiError error;
  };
  using Note = std::variant<Token, Begin, LifeSign, Gone, End>;

  void submit(std::vector<engine::Request> requests);
  void leave(Note note);
  void drain();
  void read(Token& token);
  void read(Begin&);
  void read(LifeSign&);
  void read(Gone&);
  void read(End& end);
  void plan_life_sign(std::chrono::seconds from_now);
  void send();
  void fail(ApiError error);
  void finish();
  void cancel(size_t index);
  void cancel_all();
  void close();

  const AnswerPlaces places_;
  std::shared_ptr<http::Exchange> exchange_;
  const std::string path_;
  std::unique_ptr<ReplyWriter> writer_;
  std::function<void(double)> on_token_time_;
  std::function<void(const RequestRecord&)> on_done_;
  const std::optional<double> deadline_s_;
  const Timers::Time begun_;
  AnswerState state_;

  mutable std::mutex mutex_;  // guards what the threads share: the lines down to the gap
  std::vector<Note> inbox_;
  bool reading_ = true;        // nobody reads before all is submitted
  std::vector<uint64_t> ids_;  // of the engine; 0: not submitted yet
  int written_ = 0;

  // Of the worker that reads.
  RequestRecord record_;
  std::vector<Timers::Time> last_token_;
  Timers::Time last_event_;
  std::string out_;
  size_t open_replies_ = 0;
  std::optional<ApiError> failure_;
  bool started_ = false;   // headers are out
  bool answered_ = false;  // nothing more goes to the client
};

}  // namespace slip::server::api
