#include "net/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "base/error.h"
#include "hub/fake_hub.h"

namespace slip::net {
namespace {

using test::FakeReply;
using test::FakeRequest;

class Client : public testing::Test {
 protected:
  ClientOptions options() {
    ClientOptions options;
    options.proxy = "";
    return options;
  }
  void answer(const std::string& body) {
    server_.set_script([body](const FakeRequest&, FakeReply& reply) { reply.become(200, body); });
  }
  Fetched get(size_t longest = 1000) {
    HttpClient client(options());
    return fetch(client, {.url = server_.url() + "/x"}, longest);
  }
  test::FakeHub server_;
};

TEST_F(Client, a_reply_comes_with_its_head_and_its_body) {
  server_.set_script([](const FakeRequest&, FakeReply& reply) {
    reply.become(418, "short");
    reply.set("X-Thing", "  a value ");
  });
  const Fetched got = get();
  EXPECT_EQ(got.end.outcome, Outcome::kDone);
  EXPECT_EQ(got.reply.status, 418);
  EXPECT_EQ(got.body, "short");
  ASSERT_NE(got.reply.find("x-thing"), nullptr);
  EXPECT_EQ(*got.reply.find("x-thing"), "a value");
}

TEST_F(Client, a_body_is_cut_at_the_limit) {
  answer(std::string(5'000'000, 'x'));
  const Fetched got = get(1000);
  EXPECT_TRUE(got.too_long);
  EXPECT_EQ(got.body.size(), 1000u);
  EXPECT_EQ(got.end.outcome, Outcome::kStopped);
  answer(std::string(1000, 'x'));
  EXPECT_FALSE(get(1000).too_long);
}

TEST_F(Client, a_head_without_end_is_cut_off) {
  server_.set_script([](const FakeRequest&, FakeReply& reply) {
    for (int i = 0; i < 2000; ++i)
      reply.headers.emplace_back("X-" + std::to_string(i), std::string(1000, 'x'));
  });
  EXPECT_EQ(get().end.outcome, Outcome::kBroken);
}

TEST_F(Client, redirects_are_not_followed) {
  server_.set_script([](const FakeRequest&, FakeReply& reply) {
    reply.become(302, "");
    reply.set("Location", "/elsewhere");
  });
  EXPECT_EQ(get().reply.status, 302);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(Client, an_address_that_is_not_allowed_gets_no_connection) {
  ClientOptions careful = options();
  int asked = 0;
  careful.allow_address = [&](const sockaddr& address, socklen_t) {
    ++asked;
    const auto& internet = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(internet.sin_addr.s_addr) >> 24 != 127;
  };
  HttpClient client(careful);
  EXPECT_EQ(fetch(client, {.url = server_.url() + "/x"}, 100).end.outcome, Outcome::kForbidden);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Client, nobody_listening_is_no_connection) {
  HttpClient client(options());
  EXPECT_EQ(fetch(client, {.url = "http://127.0.0.1:1/"}, 100).end.outcome, Outcome::kNoConnection);
}

TEST_F(Client, a_connection_that_breaks_is_told_from_a_reply_that_ended) {
  server_.set_script([](const FakeRequest&, FakeReply& reply) {
    reply.become(200, std::string(1000, 'x'));
    reply.cut_after = 500;
  });
  const Fetched got = get();
  EXPECT_EQ(got.end.outcome, Outcome::kBroken);
  EXPECT_EQ(got.body.size(), 500u);
}

TEST_F(Client, a_server_that_speaks_no_http_is_broken) {
  HttpClient client(options());
  server_.set_script([](const FakeRequest&, FakeReply& reply) { reply.become(0, "garbage"); });
  EXPECT_EQ(fetch(client, {.url = server_.url() + "/"}, 100).end.outcome, Outcome::kBroken);
}

TEST_F(Client, compressed_replies_are_understood_and_still_limited) {
  server_.set_script([](const FakeRequest& request, FakeReply& reply) {
    EXPECT_EQ(request.header("accept-encoding"), "identity");
    static const unsigned char kBytes[] = {0x1f, 0x8b, 0x08, 0,    0,    0,    0,    0, 0, 3, 0xab,
                                           0xae, 5,    0,    0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0};
    reply.become(200, std::string(reinterpret_cast<const char*>(kBytes), sizeof kBytes));
    reply.set("Content-Encoding", "gzip");
  });
  EXPECT_EQ(get().body, "{}");
  const Fetched cut = get(1);
  EXPECT_TRUE(cut.too_long);
}

TEST_F(Client, an_exception_of_a_receiver_comes_out_of_poll) {
  struct Throwing : Receiver {
    bool on_head(const Reply&) override { fail(ErrorKind::kRuntime, "from the head"); }
    Flow on_body(std::span<const std::byte>) override { return Flow::kMore; }
    void on_end(const End& end) override { outcome = end.outcome; }
    Outcome outcome = Outcome::kDone;
  } receiver;
  HttpClient client(options());
  client.start({.url = server_.url() + "/x"}, receiver);
  bool thrown = false;
  for (int i = 0; i < 100 && !thrown; ++i) {
    try {
      client.poll(std::chrono::milliseconds(50));
    } catch (const Error& error) {
      thrown = true;
      EXPECT_STREQ(error.what(), "from the head");
    }
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(receiver.outcome, Outcome::kStopped);
  EXPECT_EQ(client.active(), 0);
}

TEST_F(Client, a_paused_transfer_goes_on_with_the_same_bytes) {
  struct Pausing : Receiver {
    bool on_head(const Reply&) override { return true; }
    Flow on_body(std::span<const std::byte> bytes) override {
      if (pauses-- > 0) return Flow::kPause;
      body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return Flow::kMore;
    }
    void on_end(const End&) override { done = true; }
    std::string body;
    int pauses = 3;
    bool done = false;
  } receiver;
  answer("all of it");
  HttpClient client(options());
  const auto id = client.start({.url = server_.url() + "/x"}, receiver);
  for (int i = 0; i < 200 && !receiver.done; ++i) {
    client.poll(std::chrono::milliseconds(20));
    client.resume(id);
  }
  EXPECT_EQ(receiver.body, "all of it");
}

TEST_F(Client, a_wish_to_stop_ends_a_fetch) {
  Cancel cancel;
  server_.set_script([&](const FakeRequest&, FakeReply& reply) {
    reply.become(200, "never");
    reply.silent_after = 0;
    reply.when_silent = [&] { cancel.request(); };
  });
  HttpClient client(options());
  EXPECT_EQ(fetch(client, {.url = server_.url() + "/x"}, 100, &cancel).end.outcome, Outcome::kStopped);
  EXPECT_EQ(client.active(), 0);
}

TEST_F(Client, the_token_of_one_request_is_not_in_the_next) {
  answer("x");
  HttpClient client(options());
  fetch(client, {.url = server_.url() + "/x", .headers = {{"Authorization", "Bearer secret"}}}, 100);
  fetch(client, {.url = server_.url() + "/x"}, 100);
  ASSERT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(server_.requests()[0].header("authorization"), "Bearer secret");
  EXPECT_EQ(server_.requests()[1].header("authorization"), "");
}

}  // namespace
}  // namespace slip::net
