// Reads one request from bytes as they come: first the head, then, when the caller says so, the body. Between the two
// the caller may refuse. Holds no socket, so tests and fuzzers feed it from memory.
//
// Beast parses; this decides what of it we take. Stricter than Beast: every line ends with CRLF, no folded headers, one
// Content-Length of digits alone, Transfer-Encoding "chunked" alone and never beside a Content-Length, one Host. What two
// programs could read in two ways is refused, since a proxy in front may read it the other way.
//
// Memory: the head, up to its limit; the body as it comes, never as announced.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/options.h"

namespace slip::server::http {

struct RequestHead {
  std::string method, target;
  std::vector<Header> headers;
  bool http11 = false;
  bool keep_alive = false;
  bool expects_continue = false;
  bool chunked = false;
  uint64_t content_length = 0;  // 0 when chunked
  bool has_body() const { return chunked || content_length > 0; }
};

class RequestParser {
 public:
  enum class State {
    kNothing,  // not a byte of a request yet
    kHead,
    kHeadDone,  // read_body() goes on
    kBody,
    kDone,
    kFailed,
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  /// Takes bytes and returns how many: all, unless the state becomes kHeadDone, kDone or kFailed before the end.
  size_t feed(std::string_view bytes);
  void read_body();
  /// The peer sends no more: a request that has begun and is not whole fails.
  void end_of_input();

  State state() const { return state_; }
  /// From kHeadDone on; after a failure in the head it is as far as it was understood.
  const RequestHead& head() const { return head_; }
  RequestHead take_head() { return std::move(head_); }
  size_t body_bytes() const { return body_.size(); }
  std::string take_body() { return std::move(body_); }
  /// Why, when kFailed.
  const Refusal& failure() const { return failure_; }

 private:
  class Beast;
  void feed_head(std::string_view& rest);
  void feed_body(std::string_view& rest);
  bool scan(char c);
  void parse_head(std::string_view text);
  void check_head();
  void finish_head();
  void fail(int status, std::string code, std::string message);
  void fail_from(int error);

  Limits limits_;
  State state_ = State::kNothing;
  RequestHead head_;
  std::string text_;  // the head so far, later what Beast left of the body
  std::string body_;
  Refusal failure_{};
  std::unique_ptr<Beast> beast_;
  size_t head_bytes_ = 0;
  int blank_lines_ = 0;  // in front of the request line
  int line_ = 0;         // of the head
  bool after_cr_ = false, line_empty_ = true, line_ended_ = false;
};

}  // namespace slip::server::http
