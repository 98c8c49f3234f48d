#include "server/http/answer.h"

#include <algorithm>
#include <utility>

#include "server/http/refuse.h"
#include "server/http/response.h"
#include "server/http/text.h"

namespace slip::server::http {

namespace {

constexpr size_t kOwnPiece = 16 * 1024;  // a body from this size on is moved, not copied behind its head

void add_missing(std::vector<Header>& headers, std::string_view name, std::string_view value) {
  if (has_header(headers, name)) return;
  headers.push_back({std::string(name), std::string(value)});
}

}  // namespace

Answer::Answer(AnswerOptions options)
    : options_(std::move(options)), wake_(options_.wake), keep_alive_(options_.keep_alive) {}

std::shared_ptr<Exchange> Answer::handle() {
  auto self = shared_from_this();
  return {static_cast<Exchange*>(this), [self](Exchange*) { self->abandoned(); }};
}

void Answer::begin(int status, const std::vector<Header>& headers, const std::string* body) {
  no_body_ = options_.head_only || has_no_body(status);
  chunked_ = !body && options_.http11 && !has_no_body(status);
  if (options_.closing->load() || (!body && !options_.http11)) keep_alive_ = false;
  ResponseHead head{.status = status,
                    .headers = headers,
                    .more = options_.headers,

                    .id = options_.id};
  if (body && !has_no_body(status)) head.content_length = body->size();
  head.chunked = chunked_;
  head.close = !keep_alive_;
  head.http11 = options_.http11;
  pieces_.push_back(response_head(head));
}

void Answer::respond(int status, std::vector<Header> headers, std::string body) {
  std::function<void()> dropped;  // destroyed behind the lock: it may hold this exchange
  const std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return;
  begin(status, headers, &body);
  if (no_body_) body.clear();
  if (body.size() < kOwnPiece) {
    pieces_.back() += body;
  } else {
    pieces_.push_back(std::move(body));
  }
  for (const std::string& piece : pieces_) unsent_ += piece.size();
  state_ = State::kComplete;
  dropped = std::exchange(callback_, nullptr);
  wake_locked();
}

void Answer::start(int status, std::vector<Header> headers) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return;
  if (left_) {
    state_ = State::kAborted;
    return wake_locked();
  }
  add_missing(headers, "Cache-Control", "no-cache");
  add_missing(headers, "X-Accel-Buffering", "no");  // or else nginx may hold tokens back
  begin(status, headers, nullptr);
  unsent_ += pieces_.back().size();
  state_ = State::kStreaming;
  wake_locked();
}

bool Answer::write(std::string_view data) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStreaming || left_) return false;
  if (no_body_ || data.empty()) return true;
  if (unsent_ > 0 && unsent_ + data.size() > options_.unsent_limit) {
    state_ = State::kAborted;
    pieces_.clear();
    wake_locked();
    return false;
  }
  if (pieces_.empty()) pieces_.emplace_back();
  const size_t before = pieces_.back().size();
  if (chunked_) {
    append_chunk(pieces_.back(), data);
  } else {
    pieces_.back() += data;
  }
  unsent_ += pieces_.back().size() - before;
  wake_locked();
  return true;
}

void Answer::finish() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStreaming) return;
  if (chunked_ && !no_body_) {
    constexpr std::string_view kLastChunk = "0\r\n\r\n";
    if (pieces_.empty()) pieces_.emplace_back();
    pieces_.back() += kLastChunk;
    unsent_ += kLastChunk.size();
  }
  state_ = State::kComplete;
  dropped = std::exchange(callback_, nullptr);
  wake_locked();
}

bool Answer::open() const {
  const std::lock_guard lock(mutex_);
  return !left_ && (state_ == State::kWaiting || state_ == State::kStreaming);
}

void Answer::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete && !lost_) return;
    if (!lost_) {
      callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Answer::abandoned() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kStreaming) {
      state_ = State::kAborted;
      pieces_.clear();
      return wake_locked();
    }
    if (state_ != State::kWaiting) return;
  }
  const Refusal refusal{500, "internal_error", "the server failed to answer this request"};
  respond(refusal.status, refusal_headers(refusal),
          refusal_body(*options_.error_body, options_.path, refusal));
}

Answer::Taken Answer::take(std::vector<std::string>& pieces) {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  for (std::string& piece : pieces_) pieces.push_back(std::move(piece));
  pieces_.clear();
  return {.begun = state_ != State::kWaiting,
          .complete = state_ == State::kComplete,
          .aborted = state_ == State::kAborted,
          .keep_alive = keep_alive_};
}

bool Answer::woken() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return state_ != State::kAborted;
}

void Answer::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_ -= std::min(bytes, unsent_);
}

void Answer::close_behind() {
  const std::lock_guard lock(mutex_);
  keep_alive_ = false;
}

void Answer::peer_left() {
  leave(false);
}
void Answer::gone() {
  leave(true);
}

void Answer::leave(bool closed) {
  std::function<void()> callback, dropped;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
    lost_ = lost_ || state_ != State::kComplete;
    callback = std::exchange(callback_, nullptr);
    if (closed) dropped = std::exchange(wake_, nullptr);
    if (closed) pieces_.clear();
  }
  if (callback) callback();
}

void Answer::wake_locked() {
  if (woken_ || !wake_) return;
  woken_ = true;
  wake_();
}

}  // namespace slip::server::http
