// Hostile and broken requests as raw bytes: each gets its refusal, none reaches the handler, and the server still answers
// the next one.
#include <gtest/gtest.h>

#include "server/http_support.h"

namespace slip::server::http {
namespace {

std::string many_headers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "X-" + std::to_string(i) + ": v\r\n";
  return text;
}

std::string raw(const std::string& head) {
  return head + "\r\n\r\n";
}
std::string with(const std::string& headers) {
  return raw("POST /a HTTP/1.1\r\nHost: localhost\r\n" + headers);
}

struct Bad {
  const char* name;
  std::string bytes;
  int status;
};

std::vector<Bad> bad_requests() {
  const std::string chunked = with("Transfer-Encoding: chunked");
  return {
      // The request line.
      {"binary", std::string("\x00\x01\x02\x03\r\n\r\n", 8), 400},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8), 400},
      {"HTTP/0.9", "GET /\r\n", 400},
      {"HTTP/1.2", raw("GET / HTTP/1.2\r\nHost: localhost"), 505},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"version of letters", raw("GET / HTTQ/1.1\r\nHost: localhost"), 505},
      {"no target", raw("GET HTTP/1.1\r\nHost: localhost"), 400},
      {"two blanks", raw("GET  / HTTP/1.1\r\nHost: localhost"), 400},
      {"a blank in the target", raw("GET /a b HTTP/1.1\r\nHost: localhost"), 505},
      {"method of symbols", raw("G{}T / HTTP/1.1\r\nHost: localhost"), 400},
      {"unknown method", raw("BREW / HTTP/1.1\r\nHost: localhost"), 405},
      {"lower-case method", raw("get / HTTP/1.1\r\nHost: localhost"), 405},
      {"TRACE", raw("TRACE / HTTP/1.1\r\nHost: localhost"), 405},
      {"CONNECT", raw("CONNECT localhost:443 HTTP/1.1\r\nHost: localhost"), 400},
      {"a line that never ends", "GET /" + std::string(100'000, 'a'), 414},
      {"a bare line feed", "GET / HTTP/1.1\nHost: localhost\n\n", 400},
      {"a bare carriage return", raw("GET / HTTP/1.1\rHost: localhost"), 400},
      {"blank lines only", "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", 400},
      // The target.
      {"two slashes", get("//v1//chat"), 404},
      {"..", get("/v1/../etc/passwd"), 404},
      {"%2e%2e", get("/v1/%2e%2e/etc"), 404},
      {".%2E at the end", get("/v1/.%2E"), 404},
      {"..%2f", get("/..%2f..%2fetc"), 404},
      {"a dot", get("/./v1"), 404},
      {"a backslash", get("/v1\\..\\x"), 404},
      {"%5c", get("/v1%5c..%5cx"), 404},
      {"%00", get("/v1%00"), 400},
      {"%0d%0a", get("/v1%0d%0aX: y"), 505},
      {"%0a alone", get("/v1%0a"), 400},
      {"broken escape", get("/v1%zz"), 400},
      {"half an escape", get("/v1%2"), 400},
      {"no UTF-8", get("/v1%ff"), 400},
      {"overlong UTF-8", get("/v1%c0%ae%c0%ae"), 400},
      {"surrogate", get("/v1%ed%a0%80"), 400},
      {"raw bytes", get("/v1\xff"), 400},
      {"a fragment", get("/v1#x"), 400},
      {"ftp", get("ftp://localhost/a"), 400},
      {"no scheme", get("localhost/a"), 400},
      // Headers.
      {"100,000 headers", raw("GET / HTTP/1.1\r\nHost: localhost\r\n" + many_headers(100'000)), 431},
      {"101 headers", get("/", many_headers(100)), 431},
      {"one long header", get("/", "X: " + std::string(70'000, 'a') + "\r\n"), 431},
      {"a header that never ends", "GET / HTTP/1.1\r\nX: " + std::string(200'000, 'a'), 431},
      {"no name", get("/", ": v\r\n"), 400},
      {"a blank before the colon", get("/", "X : v\r\n"), 400},
      {"no colon", get("/", "X\r\n"), 400},
      {"a folded header", get("/", "X: a\r\n b\r\n"), 400},
      {"a folded first line", "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n", 400},
      {"NUL in a value", get("/", std::string("X: a\0b\r\n", 8)), 400},
      {"no Host", raw("GET / HTTP/1.1"), 400},
      {"two Hosts", get("/", "Host: localhost\r\n"), 400},
      {"a Host that is none", raw("GET / HTTP/1.1\r\nHost: a b"), 400},
      {"a user in the Host", raw("GET / HTTP/1.1\r\nHost: localhost@evil.example"), 400},
      {"a wrong Host", raw("GET / HTTP/1.1\r\nHost: evil.example"), 403},
      {"an empty Host", raw("GET / HTTP/1.1\r\nHost:"), 403},
      {"preflight of another site",
       raw("OPTIONS /a HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n"
           "Access-Control-Request-Method: POST"),
       403},
      {"an unknown expectation", with("Content-Length: 1\r\nExpect: 200-ok") + "x", 417},
      {"gzip", with("Content-Length: 3\r\nContent-Encoding: gzip") + "abc", 415},
      // Framing.
      {"negative length", with("Content-Length: -1"), 400},
      {"signed length", with("Content-Length: +1") + "x", 400},
      {"length of letters", with("Content-Length: ten"), 400},
      {"hexadecimal length", with("Content-Length: 0x1") + "x", 400},
      {"empty length", with("Content-Length:"), 400},
      {"length past 2^64", with("Content-Length: 18446744073709551616"), 400},
      {"length of 2^64-1", with("Content-Length: 18446744073709551615"), 413},
      {"64 MiB and a byte", with("Content-Length: 67108865"), 413},
      {"two lengths", with("Content-Length: 1\r\nContent-Length: 2") + "xx", 400},
      {"the same length twice", with("Content-Length: 1\r\nContent-Length: 1") + "x", 400},
      {"a list of lengths", with("Content-Length: 1, 1") + "x", 400},
      {"length and chunked", with("Content-Length: 1\r\nTransfer-Encoding: chunked") + "0\r\n\r\n", 400},
      {"chunked and length", with("Transfer-Encoding: chunked\r\nContent-Length: 1") + "0\r\n\r\n", 400},
      {"chunked twice", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked") + "0\r\n\r\n", 400},
      {"gzip, chunked", with("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n", 400},
      {"chunked, identity", with("Transfer-Encoding: chunked, identity") + "0\r\n\r\n", 400},
      {"an unknown coding", with("Transfer-Encoding: xchunked") + "0\r\n\r\n", 400},
      {"a tab in the coding",
       with("Transfer-Encoding: \x0b"
            "chunked") +
           "0\r\n\r\n",
       400},
      {"chunked in HTTP/1.0",
       raw("POST /a HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked") + "0\r\n\r\n", 400},
      {"a chunk size of letters", chunked + "xyz\r\n", 400},
      {"a negative chunk size", chunked + "-1\r\nx\r\n", 400},
      {"a chunk size with 0x", chunked + "0x1\r\nx\r\n0\r\n\r\n", 400},
      {"a chunk size past 2^64", chunked + "10000000000000000\r\n", 400},
      {"a chunk size of 2^64-1", chunked + "ffffffffffffffff\r\n", 413},
      {"no CRLF behind a chunk", chunked + "1\r\nxx\r\n0\r\n\r\n", 400},
      {"a bare line feed behind a size", chunked + "1\nx\n0\n\n" + "\r\n", 400},
      {"a chunk extension without end", chunked + "1;" + std::string(40'000, 'a'), 400},
      {"a quote over the end of a chunk's line", chunked + "5;a=\"b\r\nhello\r\n0\r\n\r\n", 400},
      {"a quote over the end of the last chunk's line", chunked + "0;a=\"b\r\n\r\n", 400},
      {"trailers without end", chunked + "0\r\nX: " + std::string(40'000, 'a'), 400},
      {"a Content-Length in the trailers", chunked + "0\r\nContent-Length: 5\r\n\r\n", 400},
  };
}

TEST(HttpBadInput, each_bad_request_gets_its_refusal_and_the_server_goes_on) {
  TestServer test;
  for (const Bad& bad : bad_requests()) {
    const size_t before = test.echo.count();
    const Reply reply = test.ask(bad.bytes);
    EXPECT_EQ(reply.status, bad.status) << bad.name << ": " << reply.body;
    EXPECT_TRUE(reply.whole) << bad.name;
    EXPECT_NE(reply.body.find("\"code\":\""), std::string::npos) << bad.name;
    EXPECT_EQ(test.echo.count(), before) << bad.name << " reached the handler";
  }
  EXPECT_EQ(test.ask(get("/a")).status, 200);
  EXPECT_TRUE(eventually([&] { return test.server.counts().connections == 0; }));
  EXPECT_EQ(test.server.counts().active, 0u);
}

TEST(HttpBadInput, bad_requests_in_single_bytes_get_the_same_refusal) {
  TestServer test;
  for (const Bad& bad : bad_requests()) {
    if (bad.bytes.size() > 400) continue;
    Client client = test.client();
    for (const char c : bad.bytes)
      if (!client.send(std::string_view(&c, 1))) break;
    EXPECT_EQ(client.read().status, bad.status) << bad.name;
  }
}

TEST(HttpBadInput, a_request_that_is_cut_off_anywhere_never_reaches_the_handler) {
  TestServer test;
  for (const std::string& whole :
       {post("/a", "body"), with("Transfer-Encoding: chunked") + "4\r\nbody\r\n0\r\n\r\n"}) {
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      Client client = test.client();
      client.send(std::string_view(whole).substr(0, cut));
      client.close_sending();
      const Reply reply = client.read();
      EXPECT_EQ(reply.status, 400) << "cut at " << cut;
    }
  }
  EXPECT_EQ(test.echo.count(), 0u);
}

TEST(HttpBadInput, a_length_that_is_too_small_makes_the_rest_a_pipelined_request) {
  TestServer test;
  Client client = test.client();
  client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nbody");
  const Reply reply = client.read();
  EXPECT_EQ(reply.body, "POST /a? bo");
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(HttpBadInput, no_body_is_an_empty_body) {
  TestServer test;
  EXPECT_EQ(test.ask(with("X: y")).body, "POST /a? ");
  EXPECT_EQ(test.ask(with("Content-Length: 0")).body, "POST /a? ");
}

}  // namespace
}  // namespace slip::server::http
