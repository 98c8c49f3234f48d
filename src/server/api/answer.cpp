#include "server/api/answer.h"

#include <algorithm>
#include <cmath>

namespace slip::server::api {
namespace {

using engine::FinishReason;

// As nginx calls it: the client went away.
constexpr int kClientGone = 499;

std::vector<http::Header> stream_headers(std::string_view type) {
  return {{"Content-Type", std::string(type)}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
}

ApiError failure_of(const engine::Delta& delta) {
  const std::string message(delta.error);
  if (delta.error_kind == ErrorKind::kOutOfMemory) return {503, "out_of_memory", message};
  if (delta.error_kind == ErrorKind::kUsage) return {400, "invalid_value", message};
  return {500, "internal_error", message};
}

double seconds(Timers::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::shared_ptr<Answer> Answer::start(const AnswerPlaces& places, Plan plan) {
  std::vector<engine::Request> requests = std::move(plan.requests);
  auto answer = std::make_shared<Answer>(places, std::move(plan));
  answer->ids_.resize(requests.size());
  answer->last_token_.resize(requests.size());
  answer->record_.replies.resize(requests.size());
  answer->open_replies_ = requests.size();
  answer->state_.prompt_tokens = requests.empty() ? 0 : static_cast<int>(requests.front().prompt.size());
  if (answer->writer_->streams()) answer->writer_->begin(answer->out_);
  if (!answer->out_.empty()) answer->inbox_.emplace_back(Begin{});
  answer->submit(std::move(requests));
  answer->exchange_->on_close([weak = answer->weak_from_this()] {
    if (const auto self = weak.lock()) self->leave(Gone{});
  });
  if (answer->writer_->streams()) answer->plan_life_sign(kFirstLifeSign);
  if (answer->deadline_s_) {
    const auto in = std::chrono::duration_cast<Timers::Clock::duration>(
        std::chrono::duration<double>(*answer->deadline_s_));
    places.timers.at(answer->begun_ + in, [weak = answer->weak_from_this()] {
      if (const auto self = weak.lock())
        self->end({504, "deadline_exceeded", "the request's deadline passed before the answer was complete"});
    });
  }
  return answer;
}

Answer::Answer(const AnswerPlaces& places, Plan plan)
    : places_(places),
      exchange_(std::move(plan.exchange)),
      path_(std::move(plan.path)),
      writer_(std::move(plan.writer)),
      on_token_time_(std::move(plan.on_token_time)),
      on_done_(std::move(plan.on_done)),
      deadline_s_(plan.deadline_s),
      begun_(places.timers.now()),
      state_{.id = plan.record.id,
             .route = plan.record.route,
             .key = plan.record.key,
             .stream = plan.record.stream,
             .choices = plan.record.choices,
             .max_tokens = plan.record.max_tokens},
      record_(std::move(plan.record)),
      last_event_(begun_) {}

// Deltas may come before submit() has returned the id, on the engine's thread.
void Answer::submit(std::vector<engine::Request> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sink = [self = shared_from_this(), i](const engine::Delta& delta) {
      self->leave(Token{i, session::OwnedDelta(delta), self->places_.timers.now()});
    };
    try {
      const uint64_t id = places_.replies.submit(std::move(requests[i]));
      const std::lock_guard lock(mutex_);
      ids_[i] = id;
    } catch (...) {
      // Whoever called answers. Those that run already end unheard, as nobody reads the inbox.
      cancel_all();
      throw;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    reading_ = !inbox_.empty();
    if (!reading_) return;
  }
  places_.workers.post([self = shared_from_this()] { self->drain(); });
}

void Answer::leave(Note note) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(note));
    if (reading_) return;
    reading_ = true;
  }
  places_.workers.post([self = shared_from_this()] { self->drain(); });
}

void Answer::end(ApiError error) {
  leave(End{std::move(error)});
}

AnswerState Answer::state() const {
  AnswerState state = state_;
  const std::lock_guard lock(mutex_);
  state.written = written_;
  state.seconds = seconds(places_.timers.now() - begun_);
  return state;
}

void Answer::drain() {
  std::vector<Note> notes;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      notes.clear();
      std::swap(notes, inbox_);
      if (notes.empty()) {
        reading_ = false;
        return;
      }
    }
    try {
      for (Note& note : notes) std::visit([this](auto& what) { read(what); }, note);
      send();
    } catch (const std::exception& error) {
      fail({500, "internal_error", error.what()});
    }
  }
}

void Answer::read(Token& token) {
  const engine::Delta delta = token.delta.view();
  if (delta.token >= 0 && !delta.of_prompt) {
    if (last_token_[token.index] != Timers::Time() && on_token_time_)
      on_token_time_(seconds(token.at - last_token_[token.index]));
    last_token_[token.index] = token.at;
    const std::lock_guard lock(mutex_);
    ++written_;
  }
  if (delta.finish != FinishReason::kNone) {
    ReplyRecord& reply = record_.replies[token.index];
    reply.finish = delta.finish;
    if (delta.stats != nullptr) reply.stats = *delta.stats;
    --open_replies_;
  }
  if (delta.finish == FinishReason::kError) {
    fail(failure_of(delta));
  } else if (!answered_ && !failure_) {
    if (!writer_->add(token.index, delta, out_) && delta.finish == FinishReason::kNone) cancel(token.index);
  }
  if (open_replies_ == 0) close();
}

// What the writer began with is sent when the inbox is read.
void Answer::read(Begin&) {}

// While nothing comes, the next one follows; a reply that flows needs none.
void Answer::read(LifeSign&) {
  if (answered_) return;
  const auto quiet = places_.timers.now() - last_event_;
  const auto period = started_ ? kLifeSign : kFirstLifeSign;
  if (quiet >= period) {
    plan_life_sign(kLifeSign);
    writer_->life_sign(out_);
    send();
  } else {
    plan_life_sign(std::chrono::ceil<std::chrono::seconds>(period - quiet));
  }
}

void Answer::read(Gone&) {
  if (answered_) return;
  answered_ = true;
  record_.status = kClientGone;
  cancel_all();
}

void Answer::read(End& end) {
  fail(std::move(end.error));
}

void Answer::plan_life_sign(std::chrono::seconds from_now) {
  places_.timers.at(places_.timers.now() + from_now, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->leave(LifeSign{});
  });
}

void Answer::send() {
  if (out_.empty() || answered_ || !writer_->streams()) return;
  if (!started_) {
    started_ = true;
    record_.status = 200;
    exchange_->start(200, stream_headers(writer_->content_type()));
  }
  last_event_ = places_.timers.now();
  const bool heard = exchange_->write(out_);
  out_.clear();
  if (!heard) {
    Gone gone;
    read(gone);
  }
}

// The answer ends when the replies have, within a step: only then is known what they cost.
void Answer::fail(ApiError error) {
  if (failure_ || answered_) return;
  failure_ = std::move(error);
  record_.error = failure_->code;
  cancel_all();
}

void Answer::cancel(size_t index) {
  const std::lock_guard lock(mutex_);
  if (ids_[index] != 0) places_.replies.cancel(ids_[index]);
}

void Answer::cancel_all() {
  for (size_t i = 0; i < record_.replies.size(); ++i) {
    if (record_.replies[i].finish == FinishReason::kNone) cancel(i);
  }
}

// All replies have ended.
void Answer::close() {
  record_.calls = writer_->calls();
  record_.seconds = seconds(places_.timers.now() - begun_);
  const bool cancelled =
      std::any_of(record_.replies.begin(), record_.replies.end(),
                  [](const ReplyRecord& reply) { return reply.finish == FinishReason::kCancelled; });
  if (cancelled && record_.calls == 0)
    fail({503, "shutting_down", "the server is shutting down"});  // not by us
  if (!answered_) {
    send();
    if (!answered_) finish();
    answered_ = true;
  }
  if (on_done_) on_done_(record_);
  on_done_ = {};
}

void Answer::finish() {
  if (failure_ && !started_) {
    record_.status = failure_->status;
    return respond(*exchange_, path_, *failure_);
  }
  if (failure_) {
    writer_->fail(*failure_, record_, out_);
  } else {
    if (!writer_->streams()) record_.status = 200;
    writer_->finish(record_, out_);
  }
  if (!writer_->streams())
    return exchange_->respond(200, {{"Content-Type", "application/json"}}, std::move(out_));
  send();
  if (!answered_) exchange_->finish();
}

}  // namespace slip::server::api
