// The parser on bytes in memory.
#include <gtest/gtest.h>

#include <string>

#include "server/http/request_parser.h"
#include "server/http/target.h"
#include "server/http/text.h"

namespace slip::server::http {
namespace {

using State = RequestParser::State;

/// Feeds `bytes` in pieces that end at `cut` and reads the body; returns what was left over.
std::string parse(RequestParser& parser, const std::string& bytes, size_t cut) {
  std::string left;
  for (const std::string& piece : {bytes.substr(0, cut), bytes.substr(cut)}) {
    std::string_view rest = piece;
    for (;;) {
      rest.remove_prefix(parser.feed(rest));
      if (parser.state() != State::kHeadDone) break;
      parser.read_body();
    }
    left += rest;
  }
  return left;
}

TEST(HttpParser, every_cut_gives_the_same_request) {
  const std::string request =
      "\r\nPOST /a?b HTTP/1.1\r\nHost: localhost\r\nX-Empty:\r\nX-Wide:   v  \r\nTransfer-Encoding: "
      "Chunked\r\n\r\n"
      "4\r\nbody\r\n00A;x=\"y\"\r\n0123456789\r\n000\r\nT: u\r\n\r\n";
  for (size_t cut = 0; cut <= request.size(); ++cut) {
    RequestParser parser{Limits{}};
    EXPECT_EQ(parse(parser, request + "GET", cut), "GET");
    ASSERT_EQ(parser.state(), State::kDone) << cut << ": " << parser.failure().message;
    EXPECT_EQ(parser.head().target, "/a?b");
    ASSERT_EQ(parser.head().headers.size(), 4u);
    EXPECT_EQ(parser.head().headers[1].value, "");
    EXPECT_EQ(parser.head().headers[2].value, "v");
    EXPECT_TRUE(parser.head().keep_alive);
    EXPECT_EQ(parser.take_body(), "body0123456789");
  }
}

TEST(HttpParser, single_bytes_give_the_same_body) {
  for (const std::string body :
       {"1\r\na\r\n0\r\n\r\n", "0\r\n\r\n", "0\r\nA: b\r\nC: d\r\n\r\n", "2;x=\"y\"\r\nab\r\n00;z\r\n\r\n"}) {
    RequestParser parser{Limits{}};
    parser.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    parser.read_body();
    for (const char c : body) {
      ASSERT_EQ(parser.state(), State::kBody) << body;
      EXPECT_EQ(parser.feed(std::string_view(&c, 1)), 1u);
    }
    EXPECT_EQ(parser.state(), State::kDone) << body;
  }
}

TEST(HttpParser, single_bytes_of_no_chunk_are_refused_with_their_line) {
  for (const std::string body : {"xyz\r\n", "-1\r\n", "\r\n\r\n", "1\r\naxyzw", "2;x=\"\r\n",
                                 "0;x=\"\r\n\r\n", "1\r\na\r\n0\r\r\n", "1\r\na0\r\n"}) {
    RequestParser parser{Limits{}};
    parser.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    parser.read_body();
    for (const char c : body) parser.feed(std::string_view(&c, 1));
    EXPECT_EQ(parser.state(), State::kFailed) << body;
  }
}

TEST(HttpParser, it_stops_behind_the_head_so_that_the_caller_may_refuse) {
  RequestParser parser{Limits{}};
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
  EXPECT_EQ(parser.feed(head + "abc"), head.size());
  EXPECT_EQ(parser.state(), State::kHeadDone);
  EXPECT_EQ(parser.head().content_length, 3u);
  parser.read_body();
  EXPECT_EQ(parser.feed("abcd"), 3u);
  EXPECT_EQ(parser.take_body(), "abc");
}

TEST(HttpParser, memory_follows_what_came_and_not_what_was_announced) {
  RequestParser parser{Limits{}};
  parser.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n");
  parser.read_body();
  parser.feed("x");
  EXPECT_LE(parser.take_body().capacity(), size_t{2} << 20);
}

TEST(HttpParser, the_head_may_have_as_many_bytes_and_headers_as_the_limits_say) {
  const std::string line = "GET / HTTP/1.1\r\nHost: a\r\n";
  Limits limits;
  limits.head_bytes = 200;
  limits.headers = 3;
  const auto state_of = [&](const std::string& head) {
    RequestParser parser(limits);
    parser.feed(head);
    return parser.state() == State::kFailed ? parser.failure().status : 0;
  };
  const std::string filled = line + "X: " + std::string(200 - line.size() - 7, 'x') + "\r\n\r\n";
  ASSERT_EQ(filled.size(), 200u);
  EXPECT_EQ(state_of(filled), 0);
  EXPECT_EQ(state_of(line + "X: x" + filled.substr(line.size() + 3)), 431);
  EXPECT_EQ(state_of(line + "A: b\r\nC: d\r\n\r\n"), 0);
  EXPECT_EQ(state_of(line + "A: b\r\nC: d\r\nE: f\r\n\r\n"), 431);
}

TEST(HttpParser, only_the_end_of_a_begun_request_is_a_failure) {
  RequestParser parser{Limits{}};
  parser.end_of_input();
  EXPECT_EQ(parser.state(), State::kNothing);
  parser.feed("\r\n");
  parser.end_of_input();
  EXPECT_EQ(parser.state(), State::kNothing);
  parser.feed("G");
  parser.end_of_input();
  EXPECT_EQ(parser.failure().status, 400);
}

TEST(HttpParser, a_body_on_the_way_survives_moving_the_parser) {
  RequestParser first{Limits{}};
  first.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  first.read_body();
  first.feed("2\r\na");
  RequestParser second(std::move(first));
  second.feed("b\r\n0\r\n\r\n");
  EXPECT_EQ(second.state(), State::kDone);
  EXPECT_EQ(second.take_body(), "ab");
}

TEST(HttpText, utf8_is_told_from_other_bytes) {
  for (const char* good :
       {"", "a", "\xc3\xa9", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xc3", "\xc3x", "\xc0\xae", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82x", "\xff"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(HttpTarget, targets_are_taken_apart) {
  const auto path_of = [](std::string_view text) {
    const auto parsed = parse_target(text);
    const auto* target = std::get_if<Target>(&parsed);
    return target ? target->authority + "|" + target->path + "|" + target->query : "refused";
  };
  EXPECT_EQ(path_of("*"), "|*|");
  EXPECT_EQ(path_of("/"), "|/|");
  EXPECT_EQ(path_of("/v1/models/"), "|/v1/models/|");
  EXPECT_EQ(path_of("/%C3%A9?%zz"), "|/\xc3\xa9|%zz");
  EXPECT_EQ(path_of("http://localhost"), "localhost|/|");
  EXPECT_EQ(path_of("HTTPS://localhost?x"), "localhost|/|x");
  EXPECT_EQ(path_of("http:///a"), "refused");
  EXPECT_EQ(path_of("a"), "refused");
  EXPECT_EQ(path_of("/a%2"), "refused");
}

}  // namespace
}  // namespace slip::server::http
