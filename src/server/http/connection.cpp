#include "server/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "server/http/refuse.h"
#include "server/http/response.h"
#include "server/http/target.h"
#include "server/http/text.h"

namespace slip::server::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr int kReadsInARow = 4;                  // then others have their turn
constexpr size_t kThrownAway = size_t{1} << 20;  // bytes nobody asked for, while an answer is under way
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool known_method(std::string_view method) {
  return method == "GET" || method == "POST" || method == "HEAD" || method == "OPTIONS" || method == "PUT" ||
         method == "DELETE" || method == "PATCH";
}

bool would_block(const error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again ||
         error == asio::error::interrupted;
}

/// What is behind a whole request: blank lines are nothing.
bool only_blank_lines(std::string_view bytes) {
  return bytes.find_first_not_of("\r\n") == std::string_view::npos;
}

}  // namespace

Connection::Connection(Core& core, IoThread& thread, Socket socket, Entrance entrance)
    : core_(core),
      thread_(thread),
      socket_(std::move(socket)),
      entrance_(std::move(entrance)),
      timer_(thread.context),
      parser_(core.options.limits) {
  ++core_.connections;
}

Connection::~Connection() {
  --core_.connections;
}

void Connection::begin() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  thread_.connections.emplace(this, shared_from_this());
  if (entrance_.over_limit) {
    refuse({503, "too_many_connections", "the server has as many connections as it takes", 1});
  } else {
    set_deadline(core_.options.times.head);
  }
  if (state_ != State::kClosed) watch_reads();
}

void Connection::abort(bool only_active) {
  if (!only_active || active_) drop();
}

// ---- reading

void Connection::watch_reads() {
  if (reading_ || ended_ || state_ == State::kClosed) return;
  reading_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->reading_ = false;
    if (error || self->state_ == State::kClosed) return;
    self->on_readable();
    self->watch_reads();
  });
}

void Connection::on_readable() {
  for (int i = 0; i < kReadsInARow && state_ != State::kClosed && !ended_; ++i) {
    error_code error;
    const size_t size = socket_.read_some(asio::buffer(thread_.scratch), error);
    if (would_block(error)) return;
    if (error == asio::error::eof) return on_end();
    if (error) return close();  // reset by the peer
    on_bytes({thread_.scratch.data(), size});
    if (size < thread_.scratch.size()) return;
  }
}

void Connection::on_bytes(std::string_view bytes) {
  switch (state_) {
    case State::kRequest: return read_request(bytes);
    case State::kAnswering:
    case State::kRefusing:
    case State::kLingering:
      if (state_ == State::kAnswering && only_blank_lines(bytes)) return;
      if (answer_) answer_->close_behind();
      keep_refused_ = false;
      thrown_away_ += bytes.size();
      // A refused body may be as long as an accepted one; what follows a whole request has no business here.
      if (thrown_away_ > kThrownAway + (answer_ ? 0 : core_.options.limits.body_bytes)) drop();
      return;
    case State::kClosed: return;
  }
}

void Connection::on_end() {
  ended_ = true;
  if (state_ == State::kRequest) {
    parser_.end_of_input();
    if (parser_.state() == RequestParser::State::kFailed) return refuse(parser_.failure());
    return close();
  }
  if (state_ == State::kLingering) return close();
  if (state_ != State::kAnswering) return;
  // Whoever closes has usually left for good. A client that only closed its sending side still gets a whole answer.
  const Answer::Taken now = answer_->take(sending_);
  if (now.begun && !now.complete) return drop();
  answer_->close_behind();
  answer_->peer_left();
  flush();
}

void Connection::read_request(std::string_view bytes) {
  const bool nothing_yet = parser_.state() == RequestParser::State::kNothing;
  while (state_ == State::kRequest) {
    bytes.remove_prefix(parser_.feed(bytes));
    switch (parser_.state()) {
      case RequestParser::State::kNothing: return;
      case RequestParser::State::kHead:
        if (nothing_yet) set_deadline(core_.options.times.head);
        return;
      case RequestParser::State::kHeadDone:
        on_head();
        // Refused without a body to skip: the connection goes on, but not with a request that did not wait.
        if (state_ == State::kRequest && parser_.state() == RequestParser::State::kNothing && !bytes.empty())
          return only_blank_lines(bytes) ? void() : linger();
        break;
      case RequestParser::State::kBody:
        on_body_progress();
        if (bytes.empty()) return;
        break;
      case RequestParser::State::kDone: return dispatch(bytes);
      case RequestParser::State::kFailed: return refuse(parser_.failure());
    }
  }
}

// ---- judging

void Connection::on_head() {
  head_ = parser_.take_head();
  id_ = core_.next_id();
  Target target;
  std::optional<Refusal> refusal;
  auto parsed = parse_target(head_.target);
  if (auto* found = std::get_if<Target>(&parsed)) {
    target = std::move(*found);
  } else {
    refusal = std::get<Refusal>(std::move(parsed));
  }
  path_ = target.path, query_ = target.query;
  if (!refusal && !strip_base(core_.options.base_path, path_))
    refusal =
        Refusal{404, "not_found", fmt::format("this server answers below {} only", core_.options.base_path)};
  const AccessQuestion question{
      head_.method, path_, target.authority, head_.headers, entrance_.host_check, entrance_.bound_to};
  cors_ = core_.access.cors_headers(find_header(head_.headers, "origin"));
  if (auto place = core_.access.refused_place(question)) return refuse(*place);
  if (Access::is_preflight(question)) {
    auto headers = core_.access.preflight(question);
    if (!headers)
      return refuse(
          {403, "forbidden_origin", "pages of this origin may not use the server; see --cors-origin"});
    cors_.clear();
    return send_head_answer(204, *headers, "", !head_.has_body());
  }
  auto key = core_.access.key_for(question);
  if (!key) return refuse(Access::unauthorized());
  key_ = std::move(*key);
  if (refusal) return refuse(*refusal);
  if (auto other = judge_head(question)) return refuse(*other);

  parser_.read_body();
  if (parser_.state() == RequestParser::State::kFailed) return;
  count_active(true);
  set_deadline(core_.options.times.body);
  if (head_.expects_continue) {
    sending_.emplace_back(kContinue);
    flush();
  }
}

std::optional<Refusal> Connection::judge_head(const AccessQuestion& question) {
  if (!known_method(head_.method))
    return Refusal{405, "method_not_allowed", "this server knows GET, HEAD, POST and OPTIONS"};
  const int seconds = core_.refusing_seconds.load();
  if (seconds > 0 && !core_.is_probe(question.path))
    return Refusal{503, "shutting_down", "the server is shutting down", seconds};
  const std::string_view coding = find_header(head_.headers, "content-encoding");
  if (!coding.empty() && !same_word(coding, "identity"))
    return Refusal{415, "unsupported_encoding", "send the body without Content-Encoding"};
  return std::nullopt;
}

void Connection::on_body_progress() {
  const size_t size = parser_.body_bytes();
  core_.arriving_bytes += size - counted_body_;
  counted_body_ = size;
  if (core_.arriving_bytes.load() > core_.options.limits.arriving_bytes)
    refuse({503, "busy", "too much is being sent to the server at the moment", 1});
}

void Connection::dispatch(std::string_view behind) {
  core_.arriving_bytes -= std::exchange(counted_body_, 0);
  ++core_.requests;
  const bool pipelined = !only_blank_lines(behind);
  state_ = State::kAnswering;
  thrown_away_ = behind.size();
  set_deadline(std::chrono::milliseconds::max());

  AnswerOptions options{.id = id_,
                        .path = path_,
                        .headers = std::move(cors_),
                        .head_only = head_.method == "HEAD",
                        .http11 = head_.http11,
                        .keep_alive = head_.keep_alive && !pipelined,
                        .unsent_limit = core_.options.limits.unsent_bytes,
                        .error_body = core_.error_body,
                        .closing = core_.closing,
                        .wake = [&context = thread_.context, weak = weak_from_this()] {
                          asio::post(context, [weak] {
                            if (const auto self = weak.lock()) self->on_wake();
                          });
                        }};
  answer_ = std::make_shared<Answer>(std::move(options));
  Request request{.method = std::move(head_.method),
                  .path = std::move(path_),
                  .query = std::move(query_),
                  .headers = std::move(head_.headers),
                  .body = parser_.take_body(),
                  .id = id_,
                  .key = std::move(key_),
                  .peer = entrance_.peer};
  parser_ = RequestParser(core_.options.limits);
  const bool probe = core_.is_probe(request.path);
  core_.workers.post(std::move(request), answer_->handle(), probe);
}

// ---- refusing

void Connection::refuse(const Refusal& refusal) {
  if (head_.method
          .empty()) {  // refused within the head: what was understood of it gives the answer its shape
    head_ = parser_.take_head();
    auto target = parse_target(head_.target);
    if (auto* found = std::get_if<Target>(&target)) path_ = std::move(found->path);
  }
  if (id_.empty()) id_ = core_.next_id();
  const bool whole = parser_.state() == RequestParser::State::kHeadDone && !head_.has_body();
  core_.log_refusal({id_, head_.method, path_, entrance_.peer, refusal});
  send_head_answer(refusal.status, refusal_headers(refusal), refusal_body(*core_.error_body, path_, refusal),
                   whole);
}

void Connection::send_head_answer(int status, const std::vector<Header>& headers, std::string body,
                                  bool keep_alive) {
  core_.arriving_bytes -= std::exchange(counted_body_, 0);
  keep_refused_ = keep_alive && head_.keep_alive && !core_.closing->load() && !ended_;
  ResponseHead head{.status = status, .headers = headers, .more = cors_, .id = id_};
  if (!has_no_body(status)) head.content_length = body.size();
  head.close = !keep_refused_;
  head.http11 = head_.http11 || head_.method.empty();
  sending_.push_back(response_head(head));
  if (head_.method != "HEAD" && !has_no_body(status)) sending_.back() += body;
  state_ = State::kRefusing;
  thrown_away_ = 0;
  set_deadline(core_.options.times.write);
  flush();
}

// ---- writing

void Connection::on_wake() {
  if (state_ != State::kAnswering) return;
  return answer_->woken() ? flush() : drop();
}

void Connection::flush() {
  while (state_ != State::kClosed && !writing_) {
    if (sending_.empty() && state_ == State::kAnswering) {
      const Answer::Taken taken = answer_->take(sending_);
      if (taken.aborted) return drop();
      if (sending_.empty() && taken.complete) return end_answer(taken.keep_alive);
    }
    if (sending_.empty()) {
      if (state_ == State::kAnswering) set_deadline(std::chrono::milliseconds::max());
      if (state_ != State::kRefusing) return;
      return keep_refused_ && !ended_ ? next_request() : linger();
    }
    if (!send_some()) return;
  }
}

bool Connection::send_some() {
  const std::string& first = sending_.front();
  error_code error;
  const size_t size =
      socket_.write_some(asio::buffer(first.data() + sent_of_first_, first.size() - sent_of_first_), error);
  if (would_block(error)) {
    writing_ = true;
    if (state_ == State::kAnswering) set_deadline(core_.options.times.write);
    socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const error_code& failed) {
      self->writing_ = false;
      if (!failed) self->flush();
    });
    return false;
  }
  if (error) return close(), false;
  if (state_ == State::kAnswering && answer_) answer_->sent(size);
  sent_of_first_ += size;
  if (sent_of_first_ == first.size()) {
    sending_.erase(sending_.begin());
    sent_of_first_ = 0;
  }
  return true;
}

void Connection::end_answer(bool keep_alive) {
  // Only what the answer's head promised counts: a drain that began since then tells the client in the next answer.
  const bool goes_on = keep_alive && !ended_;
  answer_->gone();
  answer_.reset();
  count_active(false);
  return goes_on ? next_request() : linger();
}

void Connection::next_request() {
  state_ = State::kRequest;
  parser_ = RequestParser(core_.options.limits);
  head_ = {};
  id_.clear(), path_.clear(), query_.clear(), key_.clear(), cors_.clear();
  sending_.shrink_to_fit();
  set_deadline(core_.options.times.idle);
}

void Connection::linger() {
  count_active(false);
  if (ended_) return close();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  state_ = State::kLingering;
  // Closing while bytes are unread would reset the connection, and the client might never see the answer.
  set_deadline(core_.options.times.linger);
}

void Connection::drop() {
  if (state_ == State::kClosed) return;
  ++core_.dropped;
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0),
                     ignored);  // what the kernel holds for it is freed too
  close();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();
  core_.arriving_bytes -= std::exchange(counted_body_, 0);
  if (answer_) answer_->gone();
  answer_.reset();
  count_active(false);
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  thread_.connections.erase(this);
}

// ---- time

void Connection::set_deadline(std::chrono::milliseconds from_now) {
  deadline_ =
      from_now == std::chrono::milliseconds::max() ? Clock::time_point::max() : Clock::now() + from_now;
  if (deadline_ < timer_at_) arm_timer();
}

/// The timer is only moved forward: a deadline that moves back is noticed when it fires, which saves a cancelled wait
/// per request.
void Connection::arm_timer() {
  timer_at_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->state_ == State::kClosed) return;
    self->timer_at_ = Clock::time_point::max();
    if (Clock::now() >= self->deadline_) return self->on_deadline();
    if (self->deadline_ != Clock::time_point::max()) self->arm_timer();
  });
}

void Connection::on_deadline() {
  deadline_ = Clock::time_point::max();
  if (state_ != State::kRequest) return state_ == State::kLingering ? close() : drop();
  switch (parser_.state()) {
    case RequestParser::State::kNothing: return close();
    case RequestParser::State::kHead:
      return refuse({408, "request_timeout", "the head of the request took too long to arrive"});
    default: return refuse({408, "request_timeout", "the body of the request took too long to arrive"});
  }
}

void Connection::count_active(bool active) {
  if (active_ == active) return;
  active_ = active;
  active ? core_.enter() : core_.leave();
}

}  // namespace slip::server::http
