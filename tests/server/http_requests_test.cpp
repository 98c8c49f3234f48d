// Requests over real sockets: what is answered, what is refused, and what becomes of the connection.
#include <gtest/gtest.h>

#include <future>

#include "server/http_support.h"

namespace slip::server::http {
namespace {

Options short_times() {
  Options options;
  options.times.head = std::chrono::milliseconds(60);
  options.times.body = std::chrono::milliseconds(60);
  options.times.idle = std::chrono::milliseconds(60);
  return options;
}

TEST(HttpRequests, a_request_reaches_the_handler_as_it_was_sent) {
  TestServer test;
  const Reply reply = test.ask(post("/v1/models/a%20b%2Fc?x=%201", "{\"a\":1}", "X-One: two\r\n"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "POST /v1/models/a b/c?x=%201 {\"a\":1}");
  const Request request = test.echo.last();
  EXPECT_EQ(request.header("x-one"), "two");
  EXPECT_EQ(request.header("absent"), "");
  EXPECT_TRUE(request.peer.starts_with("127.0.0.1:"));
  EXPECT_TRUE(request.id.starts_with("req-"));
  EXPECT_EQ(reply.header("x-request-id"), request.id);
  EXPECT_FALSE(reply.header("date").empty());
}

TEST(HttpRequests, a_connection_carries_many_requests_each_with_its_own_id) {
  TestServer test;
  Client client = test.client();
  std::string last;
  for (int i = 0; i < 5; ++i) {
    client.send(post("/n" + std::to_string(i), "body"));
    const Reply reply = client.read();
    EXPECT_EQ(reply.body, "POST /n" + std::to_string(i) + "? body");
    EXPECT_NE(reply.header("x-request-id"), last);
    last = reply.header("x-request-id");
  }
  EXPECT_EQ(test.server.counts().connections, 1u);
  EXPECT_EQ(test.server.counts().requests, 5u);
}

TEST(HttpRequests, connection_close_is_honoured) {
  TestServer test;
  Client client = test.client();
  client.send(get("/a", "Connection: close\r\n"));
  const Reply reply = client.read();
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(HttpRequests, head_is_answered_without_a_body_and_with_its_length) {
  TestServer test;
  Client client = test.client();
  client.send("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Reply reply = client.read(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-length"), "9");
  client.send(get("/b"));
  EXPECT_EQ(client.read().body, "GET /b? ");
}

TEST(HttpRequests, http_1_0_is_answered_and_closed_unless_it_asks_otherwise) {
  TestServer test;
  Client client = test.client();
  client.send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read().body, "GET /a? ");
  EXPECT_EQ(client.read_to_end(), "");
  Client other = test.client();
  other.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(other.read().header("connection"), "keep-alive");
  other.send("GET /b HTTP/1.0\r\n\r\n");
  EXPECT_EQ(other.read().body, "GET /b? ");
}

TEST(HttpRequests, a_stream_to_http_1_0_ends_with_the_connection) {
  TestServer test;
  Client client = test.client();
  client.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto exchange = test.echo.held();
  exchange->start(200, {});
  exchange->write("one");
  exchange->write("two");
  exchange->finish();
  const Reply reply = client.read();
  EXPECT_EQ(reply.header("transfer-encoding"), "");
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_EQ(reply.body, "onetwo");
}

TEST(HttpRequests, chunked_bodies_are_joined_whatever_the_packets) {
  TestServer test;
  const std::string request =
      "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n1;name=value\r\n \r\nA\r\n0123456789\r\n0\r\nX-Trailer: dropped\r\n\r\n";
  EXPECT_EQ(test.ask(request).body, "POST /a? hello 0123456789");
  EXPECT_EQ(test.echo.last().header("x-trailer"), "");
  Client slow = test.client();
  for (const char c : request) {
    slow.send(std::string_view(&c, 1));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(slow.read().body, "POST /a? hello 0123456789");
  slow.send(get("/b"));
  EXPECT_EQ(slow.read().body, "GET /b? ");
}

TEST(HttpRequests, expect_100_continue_gets_its_go_ahead_before_the_body) {
  TestServer test;
  Client client = test.client();
  client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send("body");
  const Reply reply = client.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "POST /a? body");
}

TEST(HttpRequests, a_refused_body_is_never_asked_for) {
  Options options;
  options.keys = {"secret"};
  options.limits.body_bytes = 10;
  TestServer test(options);
  Client client = test.client();
  client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 401);
  EXPECT_EQ(client.read_to_end(), "");
  Client large = test.client();
  large.send(
      "POST /a HTTP/1.1\r\nHost: localhost\r\nx-api-key: secret\r\nContent-Length: 11\r\nExpect: "
      "100-continue\r\n\r\n");
  EXPECT_EQ(large.read().status, 413);
  EXPECT_EQ(test.echo.count(), 0u);
}

TEST(HttpRequests, a_client_that_sends_a_large_body_before_reading_still_sees_the_refusal) {
  Options options;
  options.limits.body_bytes = 1 << 20;
  TestServer test(options);
  Client client = test.client();
  client.send(post("/a", std::string(8 << 20, 'x')));
  EXPECT_EQ(client.read().status, 413);
}

TEST(HttpRequests, a_body_as_large_as_the_limit_is_taken_and_a_byte_more_is_not) {
  Options options;
  options.limits.body_bytes = 1 << 20;
  TestServer test(options);
  EXPECT_EQ(test.ask(post("/a", std::string(1 << 20, 'x'))).status, 200);
  EXPECT_EQ(test.ask(post("/a", std::string((1 << 20) + 1, 'x'))).status, 413);
  const std::string head = "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "80000\r\n" + std::string(0x80000, 'x') + "\r\n";
  EXPECT_EQ(test.ask(head + chunk + chunk + "0\r\n\r\n").status, 200);
  EXPECT_EQ(test.ask(head + chunk + chunk + "1\r\nx\r\n0\r\n\r\n").status, 413);
}

TEST(HttpRequests, chunks_without_end_stop_at_the_limit) {
  Options options;
  options.limits.body_bytes = 1 << 16;
  TestServer test(options);
  Client client = test.client();
  client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 100 && client.send("1000\r\n" + std::string(0x1000, 'x') + "\r\n"); ++i) continue;
  EXPECT_EQ(client.read().status, 413);
}

TEST(HttpRequests, all_bodies_together_have_a_bound) {
  Options options;
  options.limits.arriving_bytes = 100'000;
  TestServer test(options);
  Client first = test.client(), second = test.client();
  first.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 80000\r\n\r\n" +
             std::string(79'999, 'x'));
  ASSERT_TRUE(eventually([&] { return test.server.counts().active == 1; }));
  // The first body may still be on its way, so the refused one alone would pass.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  second.send(post("/b", std::string(90'000, 'x')));
  const Reply refused = second.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  first.send("x");
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(test.ask(post("/b", std::string(90'000, 'x'))).status, 200);
}

TEST(HttpRequests, a_pipelined_request_is_not_answered_and_the_first_one_is) {
  TestServer test;
  Client client = test.client();
  client.send(get("/a") + get("/b"));
  const Reply reply = client.read();
  EXPECT_EQ(reply.body, "GET /a? ");
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_EQ(test.echo.count(), 1u);
}

TEST(HttpRequests, a_request_that_comes_within_a_stream_ends_the_connection_behind_it) {
  Options options;
  options.unix_socket = testing::TempDir() + "slip_pipeline_" + std::to_string(::getpid());
  TestServer test(options);
  Client client(options.unix_socket);
  client.send(get("/hold"));
  const auto exchange = test.echo.held();
  exchange->start(200, {});
  exchange->write("one");
  EXPECT_EQ(client.read_raw(1).substr(0, 12), "HTTP/1.1 200");
  client.send(get("/b"));
  ASSERT_TRUE(eventually([&] { return client.all_was_read(); }));
  EXPECT_TRUE(exchange->write("two"));
  exchange->finish();
  EXPECT_TRUE(client.read_to_end().ends_with("3\r\ntwo\r\n0\r\n\r\n"));
  EXPECT_EQ(test.echo.count(), 1u);
}

TEST(HttpRequests, blank_lines_within_an_answer_are_no_pipelining) {
  Options options;
  options.unix_socket = testing::TempDir() + "slip_blank_" + std::to_string(::getpid());
  TestServer test(options);
  Client client(options.unix_socket);
  client.send(get("/hold"));
  const auto exchange = test.echo.held();
  client.send("\r\n");
  ASSERT_TRUE(eventually([&] { return client.all_was_read(); }));
  exchange->respond(200, {}, "x");
  EXPECT_EQ(client.read().header("connection"), "");
}

TEST(HttpRequests, a_slow_second_head_gets_408_too) {
  Options options;
  options.times.head = std::chrono::milliseconds(60);
  TestServer test(options);
  Client client = test.client();
  client.send(get("/a"));
  EXPECT_EQ(client.read().status, 200);
  client.send("GET /b HTTP/1.1\r\n");
  EXPECT_EQ(client.read().status, 408);
}

TEST(HttpRequests, a_client_that_leaves_behind_a_refusal_is_let_go_at_once) {
  Options options;
  options.times.linger = std::chrono::hours(1);
  TestServer test(options);
  EXPECT_EQ(test.ask(post("/a/../b", "body")).status, 404);
  EXPECT_TRUE(eventually([&] { return test.server.counts().connections == 0; }));
}

TEST(HttpRequests, only_the_first_answer_counts) {
  TestServer test;
  Client client = test.client();
  client.send(get("/hold"));
  const auto exchange = test.echo.held();
  exchange->respond(200, {}, "first");
  exchange->respond(500, {}, "second");
  exchange->start(500, {});
  EXPECT_FALSE(exchange->write("third"));
  EXPECT_EQ(client.read().body, "first");
  client.send(get("/b"));
  EXPECT_EQ(client.read().body, "GET /b? ");
}

TEST(HttpRequests, blank_lines_between_requests_are_no_pipelining) {
  TestServer test;
  Client client = test.client();
  client.send(post("/a", "x") + "\r\n");
  EXPECT_EQ(client.read().status, 200);
  client.send("\r\n" + get("/b"));
  EXPECT_EQ(client.read().body, "GET /b? ");
}

TEST(HttpRequests, a_slow_head_and_a_slow_body_get_408) {
  TestServer test(short_times());
  Client head = test.client();
  head.send("GET / HTTP/1.1\r\nHost: ");
  EXPECT_EQ(head.read().status, 408);
  EXPECT_EQ(head.read_to_end(), "");
  Client body = test.client();
  body.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_EQ(body.read().status, 408);
}

TEST(HttpRequests, a_byte_now_and_then_does_not_extend_the_time) {
  TestServer test(short_times());
  Client client = test.client();
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
  std::atomic<bool> stop = false;
  std::thread drip([&] {
    while (!stop && client.send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  EXPECT_EQ(client.read().status, 408);
  stop = true;
  drip.join();
}

TEST(HttpRequests, silent_and_idle_connections_are_closed_without_a_word) {
  TestServer test(short_times());
  Client silent = test.client();
  EXPECT_EQ(silent.read_to_end(), "");
  Client idle = test.client();
  idle.send(get("/a"));
  EXPECT_EQ(idle.read().status, 200);
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(eventually([&] { return test.server.counts().connections == 0; }));
}

TEST(HttpRequests, one_connection_too_many_is_told_to_come_back) {
  Options options;
  options.limits.connections = 2;
  TestServer test(options);
  Client first = test.client(), second = test.client();
  first.send(get("/a")), second.send(get("/a"));
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  Client third = test.client();
  const Reply reply = third.read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_FALSE(reply.header("retry-after").empty());
  third.close(), first.close();
  ASSERT_TRUE(eventually([&] { return test.server.counts().connections == 1; }));
  EXPECT_EQ(test.ask(get("/a")).status, 200);
}

TEST(HttpRequests, a_handler_that_throws_or_forgets_gives_500_and_the_connection_goes_on) {
  std::atomic<int> logged = 0;
  Options options;
  options.on_refused = [&](const RefusedRequest& refused) {
    logged += refused.refusal.message == "thrown by the test";
  };
  TestServer test(options);
  Client client = test.client();
  client.send(get("/throw"));
  const Reply thrown = client.read();
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(thrown.body.find("thrown by"), std::string::npos)
      << "the client is not told what went wrong inside";
  client.send(get("/forget"));
  EXPECT_EQ(client.read().status, 500);
  client.send(get("/a"));
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(logged, 1);
}

TEST(HttpRequests, text_in_an_answers_headers_cannot_begin_another_header) {
  TestServer test;
  Client client = test.client();
  client.send(get("/hold"));
  test.echo.held()->respond(200, {{"X-Text", "a\r\nSet-Cookie: b=c"}}, "");
  const Reply reply = client.read();
  EXPECT_EQ(reply.header("x-text"), "a  Set-Cookie: b=c");
  EXPECT_EQ(reply.header("set-cookie"), "");
}

TEST(HttpRequests, a_refusal_without_a_body_to_skip_keeps_the_connection) {
  TestServer test;
  Client client = test.client();
  client.send(get("/a/../b"));
  EXPECT_EQ(client.read().status, 404);
  client.send(get("/a"));
  EXPECT_EQ(client.read().status, 200);
}

TEST(HttpRequests, refusals_are_in_the_shape_of_the_api_and_reach_the_log) {
  std::mutex mutex;
  std::vector<RefusedRequest> log;
  Options options;
  options.on_refused = [&](const RefusedRequest& refused) {
    const std::lock_guard lock(mutex);
    log.push_back(refused);
  };
  options.keys = {"secret"};
  TestServer test(options);
  const Reply reply = test.ask(post("/v1/messages", "{}"));
  EXPECT_EQ(reply.body.substr(0, 50), "{\"path\":\"/v1/messages\",\"code\":\"invalid_api_key\",\"m");
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
  const std::lock_guard lock(mutex);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].method, "POST");
  EXPECT_EQ(log[0].path, "/v1/messages");
  EXPECT_EQ(log[0].id, reply.header("x-request-id"));
}

TEST(HttpRequests, a_base_path_is_taken_off) {
  Options options;
  options.base_path = "/gemma/";
  TestServer test(options);
  EXPECT_EQ(test.ask(get("/gemma/v1/models")).body, "GET /v1/models? ");
  EXPECT_EQ(test.ask(get("/gemma")).body, "GET /? ");
  EXPECT_EQ(test.ask(get("/v1/models")).status, 404);
  EXPECT_EQ(test.ask(get("/gemmas/v1/models")).status, 404);
}

TEST(HttpRequests, an_absolute_target_names_its_own_host) {
  TestServer test;
  EXPECT_EQ(test.ask("GET http://localhost:99/a?b HTTP/1.1\r\nHost: localhost\r\n\r\n").body, "GET /a?b ");
  EXPECT_EQ(test.ask("GET http://evil.example/a HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 403);
  EXPECT_EQ(test.ask("GET http://localhost/a HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
}

TEST(HttpRequests, a_probe_waits_behind_no_other_request) {
  Options options;
  options.workers = 2;
  std::promise<void> over;
  const auto ended = over.get_future().share();
  Server server(
      [&] {
        options.port = 0;
        return options;
      }(),
      [ended](const Request& request, const std::shared_ptr<Exchange>& exchange) {
        if (request.path != "/health") ended.wait();
        exchange->respond(200, {}, request.path);
      },
      {});
  server.start();
  std::vector<Client> slow;
  for (int i = 0; i < 5; ++i) slow.emplace_back(server.port()).send(post("/slow", "x"));
  ASSERT_TRUE(eventually([&] { return server.counts().requests == 5; }));
  Client probe(server.port());
  probe.send(get("/health"));
  EXPECT_EQ(probe.read().body, "/health");
  over.set_value();
  for (Client& client : slow) EXPECT_EQ(client.read().body, "/slow");
}

TEST(HttpRequests, several_io_threads_share_the_connections) {
  Options options;
  options.io_threads = 3;
  TestServer test(options);
  std::vector<Client> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(test.client());
  for (int round = 0; round < 3; ++round) {
    for (Client& client : clients) client.send(post("/a", "x"));
    for (Client& client : clients) EXPECT_EQ(client.read().body, "POST /a? x");
  }
}

}  // namespace
}  // namespace slip::server::http
