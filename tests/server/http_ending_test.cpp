// The ends of a server: drain, stop, signals, and what a service manager is told.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "server/http/drain.h"
#include "server/http/notify.h"
#include "server/http_support.h"

namespace slip::server::http {
namespace {

using std::chrono::milliseconds;

TEST(HttpDrain, health_fails_first_then_requests_are_refused_then_streams_end) {
  TestServer test;
  Client streamer = test.client(), kept = test.client();
  streamer.send(get("/hold"));
  const auto stream = test.echo.held();
  stream->start(200, {});
  kept.send(get("/before"));
  EXPECT_EQ(kept.read().header("connection"), "");

  std::atomic<bool> begun = false, over = false;
  DrainPlan plan{
      .grace = kPatience, .timeout = kPatience, .retry_after_seconds = 7, .begin = [&] { begun = true; }};
  plan.at_once = [&] { return over.load(); };
  DrainEnd end{};
  std::thread drainer([&] { end = drain(test.server, plan); });
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  // In the grace time requests are answered, and their connections end.
  ASSERT_TRUE(eventually([&] { return test.ask(get("/grace")).header("connection") == "close"; }));
  kept.send(get("/kept"));
  const Reply last = kept.read();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(stream->write("still here"));
  over = true;  // as a second signal would: the stream below is cut off
  drainer.join();
  EXPECT_EQ(end, DrainEnd::kAborted);
  EXPECT_FALSE(stream->open());
  streamer.read_to_end();
}

TEST(HttpDrain, an_answer_that_promised_a_next_request_keeps_its_word) {
  TestServer test;
  Client client = test.client();
  client.send(get("/hold"));
  const auto stream = test.echo.held();
  stream->start(200, {});  // its head names no end of the connection
  stream->write("x");
  client.read_raw(1);
  test.server.close_behind_answers();
  stream->finish();
  EXPECT_TRUE(client.read_raw(5).ends_with("0\r\n\r\n"));
  client.send(get("/next"));
  const Reply reply = client.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("connection"), "close");
}

TEST(HttpDrain, after_the_grace_time_requests_get_503_but_probes_do_not) {
  TestServer test;
  test.server.close_behind_answers();
  test.server.refuse_requests(7);
  const Reply reply = test.ask(post("/v1/chat/completions", "{}"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.header("retry-after"), "7");
  EXPECT_EQ(test.ask(get("/health")).status, 200) << "the handler's word";
  EXPECT_EQ(test.ask(get("/metrics")).status, 200);
}

TEST(HttpDrain, streams_that_end_in_time_are_whole) {
  TestServer test;
  Client client = test.client();
  client.send(get("/hold"));
  const auto stream = test.echo.held();
  stream->start(200, {});
  DrainEnd end{};
  std::thread drainer([&] { end = drain(test.server, {.grace = milliseconds(1), .timeout = kPatience}); });
  ASSERT_TRUE(eventually([&] { return test.ask(get("/a")).status == 503; }));
  stream->write("the end");
  stream->finish();
  const Reply reply = client.read();
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.body, "the end");
  drainer.join();
  EXPECT_EQ(end, DrainEnd::kIdle);
}

TEST(HttpDrain, what_runs_past_the_timeout_may_say_so) {
  TestServer test;
  Client client = test.client();
  client.send(get("/hold"));
  const auto stream = test.echo.held();
  stream->start(200, {});
  const DrainPlan plan{
      .grace = milliseconds(1), .timeout = milliseconds(1), .farewell = kPatience, .end_rest = [&] {
        stream->write("event: error\n\n");
        stream->finish();
      }};
  EXPECT_EQ(drain(test.server, plan), DrainEnd::kEndedRest);
  const Reply reply = client.read();
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.body, "event: error\n\n");
}

TEST(HttpDrain, a_body_that_is_still_arriving_counts_as_under_way) {
  TestServer test;
  Client client = test.client();
  client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbo");
  ASSERT_TRUE(eventually([&] { return test.server.counts().active == 1; }));
  EXPECT_FALSE(test.server.wait_idle(milliseconds(1)));
  client.send("dy");
  EXPECT_EQ(client.read().status, 200);
  EXPECT_TRUE(test.server.wait_idle(kPatience));
}

TEST(HttpStop, exchanges_may_outlive_their_server) {
  std::shared_ptr<Exchange> held, streaming;
  std::atomic<int> closed = 0;
  {
    TestServer test;
    Client first = test.client(), second = test.client();
    first.send(get("/hold"));
    held = test.echo.held();
    second.send(get("/hold"));
    streaming = test.echo.held();
    streaming->start(200, {});
    held->on_close([&] { ++closed; });
    streaming->on_close([&] { ++closed; });
    test.server.abort_requests();
    EXPECT_EQ(closed, 2);
    EXPECT_EQ(first.read_to_end(), "");
    test.server.stop();
  }
  held->respond(200, {}, "nobody");
  EXPECT_FALSE(streaming->write("nobody"));
  streaming->finish();
}

TEST(HttpStop, a_server_that_never_started_ends_too) {
  Echo echo;
  Options options;
  options.port = 0;
  Server server(options, echo.handler(), test_error_body);
  EXPECT_GT(server.port(), 0);
}

TEST(HttpStop, aborting_spares_connections_between_requests) {
  TestServer test;
  Client idle = test.client();
  idle.send(get("/a"));
  EXPECT_EQ(idle.read().status, 200);
  test.server.abort_requests();
  idle.send(get("/b"));
  EXPECT_EQ(idle.read().status, 200);
}

TEST(HttpSignals, the_first_and_the_second_are_counted_and_the_old_handling_comes_back) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGTERM, nullptr, &before);
  {
    StopSignals signals;
    EXPECT_FALSE(signals.wait(1, milliseconds(1)));
    ::kill(::getpid(), SIGTERM);
    EXPECT_TRUE(signals.wait(1, kPatience));
    EXPECT_FALSE(signals.wait(2, milliseconds(1)));
    std::thread other([&] { ::kill(::getpid(), SIGINT); });
    EXPECT_TRUE(signals.wait(2, kPatience));
    other.join();
    EXPECT_EQ(signals.count(), 2);
  }
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  StopSignals again;
  EXPECT_EQ(again.count(), 0);
}

/// A datagram socket as a service manager has one.
class Manager {
 public:
  explicit Manager(bool abstract = false) {
    file_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "slip_notify_" + std::to_string(::getpid());
    name_ = abstract ? "@" + name : testing::TempDir() + name;
    name_.copy(address.sun_path, sizeof address.sun_path - 1);
    if (abstract)
      address.sun_path[0] = '\0';
    else
      ::unlink(name_.c_str());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(::bind(file_, reinterpret_cast<sockaddr*>(&address), size), 0);
  }
  ~Manager() {
    ::close(file_);
    if (name_.front() != '@') ::unlink(name_.c_str());
  }
  const std::string& name() const { return name_; }
  std::string read() const {
    pollfd entry{file_, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(kPatience.count())) <= 0) return "nothing";
    char buffer[4096];
    return {buffer, static_cast<size_t>(std::max<ssize_t>(0, ::recv(file_, buffer, sizeof buffer, 0)))};
  }

 private:
  int file_;
  std::string name_;
};

TEST(HttpNotify, states_reach_the_service_manager) {
  for (const bool abstract : {false, true}) {
    const Manager manager(abstract);
    const Notifier notifier(manager.name());
    EXPECT_TRUE(notifier.ready("on port\n8080"));
    EXPECT_EQ(manager.read(), "READY=1\nSTATUS=on port 8080");
    EXPECT_TRUE(notifier.stopping("draining"));
    EXPECT_EQ(manager.read(), "STOPPING=1\nSTATUS=draining");
    EXPECT_TRUE(notifier.alive());
    EXPECT_EQ(manager.read(), "WATCHDOG=1");
  }
}

TEST(HttpNotify, without_a_service_manager_nothing_happens) {
  EXPECT_FALSE(Notifier("").ready("x"));
  EXPECT_FALSE(Notifier("relative").ready("x"));
  EXPECT_FALSE(Notifier("/nowhere/at/all").ready("x"));
  EXPECT_FALSE(Notifier("/" + std::string(200, 'x')).ready("x"));
}

TEST(HttpNotify, the_environment_says_who_is_watched) {
  ::setenv("NOTIFY_SOCKET", "/x", 1);
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  EXPECT_EQ(Notifier().watchdog(), std::chrono::microseconds(3'000'000));
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_TRUE(Notifier().watchdog());
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(Notifier().watchdog());
  ::setenv("WATCHDOG_USEC", "soon", 1);
  ::unsetenv("WATCHDOG_PID");
  EXPECT_FALSE(Notifier().watchdog());
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(HttpWatchdog, steps_and_idleness_are_life_and_a_hanging_step_is_reported_once) {
  const Manager manager;
  const Notifier notifier(manager.name());
  std::atomic<uint64_t> steps = 0;
  std::atomic<bool> busy = false;
  std::atomic<int> hangs = 0;
  std::mutex mutex;
  std::string reason;
  const Watchdog watchdog(notifier, {.steps = [&] { return steps.load(); },
                                     .busy = [&] { return busy.load(); },
                                     .on_hang =
                                         [&](const std::string& text) {
                                           const std::lock_guard lock(mutex);
                                           reason = text;
                                           ++hangs;
                                         },
                                     .limit = milliseconds(50),
                                     .look = milliseconds(2)});
  for (int i = 0; i < 40; ++i) EXPECT_EQ(manager.read(), "WATCHDOG=1");
  EXPECT_EQ(hangs, 0) << "nothing to do is no hang";
  busy = true;
  ASSERT_TRUE(eventually([&] { return hangs == 1; }));
  {
    const std::lock_guard lock(mutex);
    EXPECT_NE(reason.find("hangs"), std::string::npos);
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(hangs, 1);
  ++steps;
  ASSERT_TRUE(eventually([&] { return hangs == 2; })) << "a step that ended after all begins the count anew";
}

}  // namespace
}  // namespace slip::server::http
