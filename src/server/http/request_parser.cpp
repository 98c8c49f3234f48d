#include "server/http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <utility>

#include "base/check.h"
#include "server/http/text.h"

namespace slip::server::http {

namespace beast = boost::beast;

namespace {

constexpr int kBlankLines = 4;                        // some clients end a body with an extra CRLF
constexpr size_t kChunkLineBytes = size_t{16} << 10;  // a chunk's size line, or all trailers
constexpr size_t kReservedBytes = size_t{1} << 20;    // of a body, before any of it has come
constexpr int kTlsRecord = 0x16;                      // first byte of a TLS handshake

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_token_start(char c) {
  return c > 0x20 && c < 0x7F && std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
}

/// What Beast left of a chunked body, when a whole line of a chunk's size is in it: without the CRLF of the chunk before.
/// Nothing when either line end is wrong, which Beast refuses.
std::optional<std::string_view> size_line(std::string_view left, bool behind_chunk) {
  if (behind_chunk && !left.starts_with("\r\n")) return std::nullopt;
  if (behind_chunk) left.remove_prefix(2);
  const size_t end = left.find('\r');
  if (end == std::string_view::npos || left.substr(end, 2) != "\r\n") return std::nullopt;
  return left;
}

bool is_last_chunk(std::string_view line) {
  return line.starts_with('0') &&
         line.find_first_not_of('0') == line.find_first_not_of("0123456789abcdefABCDEF");
}

bool has_trailers_whole(std::string_view chunk) {
  return chunk.find("\r\n\r\n") != std::string_view::npos;
}

/// The last chunk is shown to Beast once its trailers are whole: 1.74 asserts on less.
bool must_wait(std::string_view left, bool behind_chunk) {
  const auto line = size_line(left, behind_chunk);
  return line && is_last_chunk(*line) && !has_trailers_whole(*line);
}

/// Beast asks for more also when a quoted chunk extension runs over the end of its line. Then a whole size line, or all
/// of the last chunk, lies in what it left. Fed with single bytes, it also waits behind a chunk that has no CRLF.
bool stuck(std::string_view left, bool behind_chunk) {
  constexpr std::string_view kEnd = "\r\n";
  if (behind_chunk && left.substr(0, kEnd.size()) != kEnd.substr(0, left.size())) return true;
  const auto line = size_line(left, behind_chunk);
  return line && (!is_last_chunk(*line) || has_trailers_whole(*line));
}

}  // namespace

/// Takes what Beast finds. Trailers come as fields behind the head and are dropped: the head was judged without them.
class RequestParser::Beast final : public beast::http::basic_parser<true> {
 public:
  Beast(RequestHead& head, std::string& body, const Limits& limits) : head_(&head), body_(&body) {
    eager(true);
    header_limit(static_cast<uint32_t>(std::min<size_t>(limits.head_bytes, 1u << 30)) + 16);
    body_limit(std::numeric_limits<uint64_t>::max());  // lowered when the head has been accepted
  }
  /// Whether what comes next begins with the CRLF that ends a chunk.
  bool behind_chunk() const { return behind_chunk_; }
  void move_to(RequestHead& head, std::string& body) { head_ = &head, body_ = &body; }

 private:
  using Error = beast::error_code;
  using Text = beast::string_view;

  void on_request_impl(beast::http::verb, Text method, Text target, int version, Error&) override {
    head_->method = view(method);
    head_->target = view(target);
    head_->http11 = version == 11;
  }
  void on_response_impl(int, Text, int, Error&) override {}
  void on_field_impl(beast::http::field, Text name, Text value, Error&) override {
    if (!head_done_) head_->headers.push_back({std::string(view(name)), std::string(view(value))});
  }
  void on_header_impl(Error&) override { head_done_ = true; }
  void on_body_init_impl(const boost::optional<uint64_t>& length, Error&) override {
    body_->reserve(static_cast<size_t>(std::min<uint64_t>(length.value_or(0), kReservedBytes)));
  }
  size_t on_body_impl(Text text, Error&) override {
    body_->append(text.data(), text.size());
    return text.size();
  }
  void on_chunk_header_impl(uint64_t size, Text, Error&) override { behind_chunk_ = size > 0; }
  size_t on_chunk_body_impl(uint64_t, Text text, Error&) override {
    body_->append(text.data(), text.size());
    return text.size();
  }
  void on_finish_impl(Error&) override {}

  RequestHead* head_;
  std::string* body_;
  bool head_done_ = false;
  bool behind_chunk_ = false;
};

RequestParser::RequestParser(const Limits& limits) : limits_(limits) {}
RequestParser::~RequestParser() = default;

RequestParser::RequestParser(RequestParser&& other) noexcept : limits_(other.limits_) {
  *this = std::move(other);
}

RequestParser& RequestParser::operator=(RequestParser&& other) noexcept {
  limits_ = other.limits_;
  state_ = other.state_;
  head_ = std::move(other.head_);
  text_ = std::move(other.text_);
  body_ = std::move(other.body_);
  failure_ = std::move(other.failure_);
  beast_ = std::move(other.beast_);
  head_bytes_ = other.head_bytes_;
  blank_lines_ = other.blank_lines_;
  line_ = other.line_;
  after_cr_ = other.after_cr_, line_empty_ = other.line_empty_, line_ended_ = other.line_ended_;
  if (beast_) beast_->move_to(head_, body_);
  return *this;
}

size_t RequestParser::feed(std::string_view bytes) {
  std::string_view rest = bytes;
  if (state_ == State::kNothing || state_ == State::kHead) feed_head(rest);
  if (state_ == State::kBody && !rest.empty()) feed_body(rest);
  return bytes.size() - rest.size();
}

void RequestParser::read_body() {
  SLIP_CHECK(state_ == State::kHeadDone);
  if (!head_.has_body()) {
    state_ = State::kDone;
  } else if (head_.content_length > limits_.body_bytes) {
    fail_from(static_cast<int>(beast::http::error::body_limit));
  } else {
    beast_->body_limit(limits_.body_bytes);
    state_ = State::kBody;
  }
}

void RequestParser::end_of_input() {
  if (state_ == State::kHead) fail(400, "bad_request", "the request ended within its head");
  if (state_ == State::kBody)
    fail(400, "bad_request",
         head_.chunked ? "the request ended within its chunked body"
                       : "the request's body is shorter than its Content-Length says");
}

void RequestParser::feed_head(std::string_view& rest) {
  size_t used = 0;
  while (used < rest.size() && state_ != State::kHeadDone && state_ != State::kFailed) {
    const size_t start = used;
    bool goes_on = true;
    while (used < rest.size() && goes_on) goes_on = scan(rest[used++]);
    text_.append(rest.substr(start, used - start));
    if (state_ == State::kFailed) break;
    if (head_bytes_ > limits_.head_bytes) {
      if (line_ == 0) {
        fail(414, "uri_too_long",
             fmt::format("the request line is longer than {} bytes", limits_.head_bytes));
      } else {
        fail(431, "headers_too_large",
             fmt::format("the headers are longer than {} bytes", limits_.head_bytes));
      }
    } else if (!goes_on) {
      std::string line = std::exchange(text_, {});
      if (line_ > 0) parse_head(line);
    }
  }
  rest.remove_prefix(used);
}

/// Follows the lines of the head. False where parse_head() or a refusal is due: behind the first line, behind the last.
bool RequestParser::scan(char c) {
  ++head_bytes_;
  if (c == '\n') {
    if (!after_cr_)
      return fail(400, "bad_request", "a line of the head ends without a carriage return"), false;
    after_cr_ = false;
    if (!line_empty_) {
      line_empty_ = true;
      return ++line_ > 1 && head_bytes_ <= limits_.head_bytes;
    }
    line_ended_ = line_ > 0;
    head_bytes_ = line_ended_ ? head_bytes_ : 0;
    if (!line_ended_ && ++blank_lines_ > kBlankLines)
      fail(400, "bad_request", "too many empty lines come before the request line");
    return false;
  }
  if (after_cr_) return fail(400, "bad_request", "the head holds a carriage return that ends no line"), false;
  if (c == '\r') return after_cr_ = true;
  if (line_empty_ && line_ == 0) {
    if (!is_token_start(c)) {
      fail(400, "bad_request",
           c == kTlsRecord
               ? "this port speaks HTTP, not HTTPS: write http:// in the address, or put a proxy that "
                 "speaks TLS in front"
               : "the request line begins with no method");
      return false;
    }
    state_ = State::kHead;
  }
  if (line_empty_ && line_ > 0) {
    if (c == ' ' || c == '\t') return fail(400, "bad_request", "a header is folded over two lines"), false;
    if (line_ > static_cast<int>(limits_.headers))
      return fail(431, "headers_too_large",
                  fmt::format("the request has more than {} headers", limits_.headers)),
             false;
  }
  line_empty_ = false;
  return head_bytes_ <= limits_.head_bytes;
}

void RequestParser::parse_head(std::string_view text) {
  if (!beast_) beast_ = std::make_unique<Beast>(head_, body_, limits_);
  while (!text.empty()) {
    beast::error_code error;
    const size_t used = beast_->put(boost::asio::const_buffer(text.data(), text.size()), error);
    text.remove_prefix(used);
    if (error == beast::http::error::need_more && used > 0 && text.empty()) break;
    if (error) return fail_from(error.value());
    if (used == 0) break;
  }
  if (!line_ended_) return;
  if (!beast_->is_header_done() || !text.empty())
    return fail(400, "bad_request", "the head of the request is malformed");
  check_head();
}

void RequestParser::check_head() {
  int lengths = 0, codings = 0, hosts = 0;
  for (const Header& header : head_.headers) {
    if (same_word(header.name, "content-length")) {
      ++lengths;
      if (!all_digits(header.value)) return fail(400, "bad_request", "the Content-Length is no number");
    } else if (same_word(header.name, "transfer-encoding")) {
      ++codings;
      if (!same_word(header.value, "chunked"))
        return fail(400, "bad_request",
                    "the Transfer-Encoding is not 'chunked', the only one understood here");
    } else if (same_word(header.name, "host")) {
      ++hosts;
    }
  }
  if (lengths > 1) return fail(400, "bad_request", "the request has two Content-Length headers");
  if (codings > 1) return fail(400, "bad_request", "the request has two Transfer-Encoding headers");
  if (lengths > 0 && codings > 0)
    return fail(400, "bad_request", "the request has both a Content-Length and a Transfer-Encoding");
  if (codings > 0 && !head_.http11) return fail(400, "bad_request", "HTTP/1.0 has no Transfer-Encoding");
  if (hosts > 1) return fail(400, "bad_request", "the request has two Host headers");
  if (hosts == 0 && head_.http11) return fail(400, "bad_request", "the Host header is missing");
  finish_head();
}

void RequestParser::finish_head() {
  head_.keep_alive = beast_->keep_alive();
  head_.chunked = beast_->chunked();
  head_.content_length = head_.chunked ? 0 : beast_->content_length().value_or(0);
  const std::string_view expect = find_header(head_.headers, "expect");
  if (!expect.empty() && !same_word(expect, "100-continue"))
    return fail(417, "expectation_failed", "the only expectation understood here is 100-continue");
  head_.expects_continue = !expect.empty() && head_.http11 && head_.has_body();
  state_ = State::kHeadDone;
}

void RequestParser::feed_body(std::string_view& rest) {
  const size_t left = text_.size();
  std::string_view input = rest;
  if (left > 0) {
    text_.append(rest);
    input = text_;
  }
  size_t used = 0;
  beast::error_code error;
  const bool waits = left > 0 && must_wait(input, beast_->behind_chunk());
  while (!waits && used < input.size() && !error && !beast_->is_done())
    used += beast_->put(boost::asio::const_buffer(input.data() + used, input.size() - used), error);
  if (error && error != beast::http::error::need_more) return fail_from(error.value());
  if (beast_->is_done()) {
    state_ = State::kDone;
    rest.remove_prefix(std::min(rest.size(), used - std::min(used, left)));
    text_.clear();
    return;
  }
  text_ = std::string(input.substr(used));
  rest = {};
  if (stuck(text_, beast_->behind_chunk())) return fail_from(static_cast<int>(beast::http::error::bad_chunk));
  if (text_.size() > kChunkLineBytes)
    fail(400, "bad_request",
         fmt::format("a chunk's first line or the trailers are longer than {} bytes", kChunkLineBytes));
}

void RequestParser::fail(int status, std::string code, std::string message) {
  state_ = State::kFailed;
  failure_ = Refusal{status, std::move(code), std::move(message)};
}

void RequestParser::fail_from(int error) {
  const auto what = static_cast<beast::http::error>(error);
  switch (what) {
    case beast::http::error::body_limit:
      return fail(413, "request_too_large",
                  fmt::format("the body is larger than the {} bytes this server takes", limits_.body_bytes));
    case beast::http::error::header_limit:
      return fail(431, "headers_too_large",
                  fmt::format("the headers are longer than {} bytes", limits_.head_bytes));
    case beast::http::error::bad_version:
      return fail(505, "http_version", "this server speaks HTTP/1.1 and HTTP/1.0");
    case beast::http::error::bad_method: return fail(400, "bad_request", "the method is malformed");
    case beast::http::error::bad_target: return fail(400, "bad_request", "the request's target is malformed");
    case beast::http::error::bad_field: return fail(400, "bad_request", "the name of a header is malformed");
    case beast::http::error::bad_value: return fail(400, "bad_request", "the value of a header is malformed");
    case beast::http::error::bad_content_length:
    case beast::http::error::bad_transfer_encoding:
      return fail(400, "bad_request",
                  "Content-Length and Transfer-Encoding are malformed, or contradict each other");
    case beast::http::error::bad_chunk:
    case beast::http::error::bad_chunk_extension:
      return fail(400, "bad_request", "the chunked body is malformed");
    default: return fail(400, "bad_request", "the request is malformed");
  }
}

}  // namespace slip::server::http
