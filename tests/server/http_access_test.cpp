// Who may ask: keys, hosts, sites and CORS, as tables; then the same over a socket.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "server/http/access.h"
#include "server/http/api_keys.h"
#include "server/http_support.h"
#include "slipstream/error.h"

namespace slip::server::http {
namespace {

struct Ask {
  std::string method = "POST", path = "/v1/models", authority = {};
  std::vector<Header> headers = {};
  bool host_check = true;

  AccessQuestion question() const { return {method, path, authority, headers, host_check, "127.0.0.1"}; }
};

int place_status(const Access& access, const Ask& ask) {
  const auto refusal = access.refused_place(ask.question());
  return refusal ? refusal->status : 200;
}

Ask host(const std::string& name) {
  return {.method = "GET", .headers = {{"Host", name}}};
}

TEST(HttpAccess, on_loopback_only_local_and_allowed_hosts_are_answered) {
  Options options;
  options.allowed_hosts = {"Models.Example:8080", "fd00::7"};
  const Access access(options);
  for (const char* name : {"localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1", "127.0.0.1:99", "[::1]",
                           "[::1]:8080", "models.example", "models.example:1", "[fd00::7]:8080"})
    EXPECT_EQ(place_status(access, host(name)), 200) << name;
  for (const char* name : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost",
                           "0.0.0.0", "127.0.0.2", "2130706433", "[::]", "xmodels.example", "127.1", ""})
    EXPECT_EQ(place_status(access, host(name)), 403) << name;
  for (const char* name : {"localhost:x", "localhost:123456", "a@localhost", "[::1", "::1", "local host",
                           "localhost,evil", "[::1]x", "[evil]", ":8080", "."})
    EXPECT_EQ(place_status(access, host(name)), 400) << name;
}

TEST(HttpAccess, elsewhere_any_host_is_answered) {
  const Access access(Options{});
  Ask ask = host("models.example");
  ask.host_check = false;
  EXPECT_EQ(place_status(access, ask), 200);
}

TEST(HttpAccess, requests_from_pages_of_other_sites_change_nothing) {
  Options options;
  options.allowed_hosts = {"models.example"};
  options.cors_origins = {"https://app.example"};
  const Access access(options);
  struct Row {
    const char *site, *origin;
    int status;
  };
  const Row rows[] = {
      {nullptr, nullptr, 200},  // no browser
      {"cross-site", nullptr, 403},
      {"same-site", nullptr, 403},
      {"Cross-Site", "http://localhost", 403},
      {"same-origin", nullptr, 200},
      {"same-origin", "http://evil.example", 200},  // the browser's word on the site is the better one
      {"none", nullptr, 200},
      {"cross-site", "https://app.example", 200},  // what --cors-origin is for
      {"cross-site", "https://evil.example", 403},
      {nullptr, "http://localhost:3000", 200},  // the host of Host
      {nullptr, "http://models.example", 200},  // --allowed-host
      {nullptr, "https://app.example", 200},    // --cors-origin
      {nullptr, "http://app.example", 403},
      {nullptr, "https://app.example:444", 403},
      {nullptr, "https://app.example.evil.example", 403},
      {nullptr, "https://evil.example", 403},
      {nullptr, "null", 403},
      {nullptr, "", 403},
      {nullptr, "garbage", 403},
      {"", "https://evil.example", 403},
  };
  for (const Row& row : rows) {
    Ask ask{.headers = {{"Host", "localhost:8080"}}};
    if (row.site) ask.headers.push_back({"Sec-Fetch-Site", row.site});
    if (row.origin) ask.headers.push_back({"Origin", row.origin});
    for (const bool loopback : {true, false}) {
      ask.host_check = loopback;
      EXPECT_EQ(place_status(access, ask), row.status)
          << (row.site ? row.site : "-") << ' ' << (row.origin ? row.origin : "-");
    }
    ask.method = "GET";
    EXPECT_EQ(place_status(access, ask), 200);
    ask.method = "DELETE";
    EXPECT_EQ(place_status(access, ask), row.status);
  }
}

TEST(HttpAccess, keys_are_taken_from_both_headers_and_compared_whole) {
  Options options;
  options.keys = {"first", "second-key"};
  const Access access(options);
  const auto key = [&](std::vector<Header> headers, const std::string& path = "/v1/models",
                       const std::string& method = "GET") {
    const Ask ask{.method = method, .path = path, .headers = std::move(headers)};
    return access.key_for(ask.question()).value_or("refused");
  };
  EXPECT_EQ(key({{"Authorization", "Bearer first"}}), "first");
  EXPECT_EQ(key({{"authorization", "bearer  second-key "}}), "second-key");
  EXPECT_EQ(key({{"X-API-Key", "second-key"}}), "second-key");
  EXPECT_EQ(key({{"Authorization", "Bearer wrong"}, {"x-api-key", "first"}}), "first");
  for (const char* wrong : {"firs", "firstx", "First", "", "second", "first,second-key", "irst", "ffirst"}) {
    EXPECT_EQ(key({{"x-api-key", wrong}}), "refused") << wrong;
    EXPECT_EQ(key({{"Authorization", "Bearer " + std::string(wrong)}}), "refused") << wrong;
  }
  EXPECT_EQ(key({{"Authorization", "first"}}), "refused");
  EXPECT_EQ(key({{"Authorization", "Basic first"}}), "refused");
  EXPECT_EQ(key({}), "refused");
  for (const char* open : {"/health", "/ready", "/"}) {
    EXPECT_EQ(key({}, open), "") << open;
    EXPECT_EQ(key({}, open, "HEAD"), "") << open;
    EXPECT_EQ(key({}, open, "POST"), "refused") << open;
    EXPECT_EQ(key({{"x-api-key", "first"}}, open), "first") << open;
  }
  for (const char* closed : {"/metrics", "/slots", "/props", "/healthz", "/health/", "/v1/models"})
    EXPECT_EQ(key({}, closed), "refused") << closed;
  const Access open{Options{}};
  EXPECT_EQ(open.key_for(Ask{}.question()), "");
}

TEST(HttpAccess, comparing_keys_compares_keys) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
  for (const char* other : {"", "a", "ab", "abd", "abca", "abcabc", "bbc"}) {
    EXPECT_FALSE(equal_in_constant_time("abc", other)) << other;
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
  }
}

class HttpKeyFile : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  ~HttpKeyFile() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "http_keys_" + std::to_string(::getpid());
};

TEST_F(HttpKeyFile, keys_come_from_a_file_and_from_the_environment) {
  EXPECT_EQ(load_api_keys(file("# keys\r\n\n  one  \r\ntwo\n"), ""),
            (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(load_api_keys("", "a, b,,a"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(load_api_keys(file("one"), "two"), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(load_api_keys("", "").empty());
}

TEST_F(HttpKeyFile, a_file_without_a_key_does_not_open_the_server) {
  EXPECT_THROW(load_api_keys(file("# nothing\n\n"), ""), Error);
  EXPECT_THROW(load_api_keys(file(""), "other"), Error);
  EXPECT_THROW(load_api_keys(path_ + "-absent", ""), Error);
  EXPECT_THROW(load_api_keys(testing::TempDir(), ""), Error);
  EXPECT_THROW(load_api_keys(file("two words\n"), ""), Error);
  EXPECT_THROW(load_api_keys(file(std::string(5000, 'x')), ""), Error);
}

TEST(HttpAccess, options_that_are_no_hosts_or_origins_are_refused) {
  Options hosts, origins;
  hosts.allowed_hosts = {"http://x"};
  EXPECT_THROW(Access{hosts}, Error);
  origins.cors_origins = {"app.example"};
  EXPECT_THROW(Access{origins}, Error);
}

TEST(HttpAccess, a_star_allows_every_host_or_origin) {
  Options options;
  options.allowed_hosts = {"*"};
  EXPECT_EQ(place_status(Access(options), host("evil.example")), 200);
  options.cors_origins = {"*"};
  EXPECT_EQ(Access(options).cors_headers("https://any.example").front().value, "https://any.example");
}

std::string preflight(const std::string& origin) {
  return "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
         "\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-one, "
         "authorization\r\n\r\n";
}

TEST(HttpAccess, a_missing_and_a_wrong_key_get_the_same_answer_before_the_body) {
  Options options;
  options.keys = {"secret"};
  TestServer test(options);
  const std::string head = "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n";
  const Reply missing = test.ask(head + "\r\n"), wrong = test.ask(head + "x-api-key: guess\r\n\r\n");
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(missing.body, wrong.body);
  EXPECT_EQ(missing.headers.size(), wrong.headers.size());
  EXPECT_EQ(test.ask(get("/a/../b")).status, 401) << "without a key nothing is told about paths";
  EXPECT_EQ(test.ask(get("/health")).status, 200);
  EXPECT_EQ(test.ask(get("/v1/models", "Authorization: Bearer secret\r\n")).status, 200);
  EXPECT_EQ(test.echo.last().key, "secret");
}

TEST(HttpAccess, without_cors_origins_no_page_gets_cors_headers) {
  TestServer test;
  EXPECT_EQ(test.ask(preflight("https://app.example")).status, 403);
  const Reply reply = test.ask(get("/a", "Origin: https://app.example\r\n"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "");
  EXPECT_EQ(test.ask("OPTIONS /a HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "OPTIONS /a? ")
      << "no preflight";
}

TEST(HttpAccess, pages_of_a_cors_origin_may_ask_and_read_also_refusals) {
  Options options;
  options.cors_origins = {"https://App.example/"};
  options.keys = {"secret"};
  TestServer test(options);
  const Reply ahead = test.ask(preflight("https://app.example"));
  EXPECT_EQ(ahead.status, 204) << "a browser sends no key with it";
  EXPECT_EQ(ahead.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(ahead.header("access-control-allow-headers"), "x-one, authorization");
  EXPECT_EQ(ahead.header("content-length"), "");
  EXPECT_EQ(test.ask(preflight("https://evil.example")).status, 403);
  const std::string page = "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n";
  const Reply refused = test.ask(post("/a", "", page));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("access-control-allow-origin"), "https://app.example");
  const Reply reply = test.ask(post("/a", "x", page + "x-api-key: secret\r\n"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(reply.header("vary"), "Origin");
}

}  // namespace
}  // namespace slip::server::http
