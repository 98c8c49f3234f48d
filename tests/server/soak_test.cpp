// Ten thousand requests of clients that read, leave, stall and write nonsense: every answer that was wanted is whole, and
// in the end nothing is left: no request, no memory of a cache, no connection, no byte.
#include <malloc.h>

#include <random>

#include "server/whole_server.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/allocator_interface.h>
#endif

namespace slip::server::api {
namespace {

/// Bytes that the program holds. Freed ones, which an allocator may keep for itself, are not in it.
size_t bytes_in_use() {
#ifdef __SANITIZE_ADDRESS__
  return __sanitizer_get_current_allocated_bytes();
#else
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
#endif
}

/// One client after another, on a thread of its own.
class Clients {
 public:
  Clients(const WholeServer& server, uint64_t seed) : server_(server), random_(seed) {}

  void run(int requests) {
    for (int i = 0; i < requests; ++i) one();
    client_.reset();
  }
  int whole() const { return whole_; }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  json body() {
    json made =
        chat({{"max_tokens", 1 + below(40)}, {"temperature", below(2)}, {"ignore_eos", below(2) == 0}});
    made["messages"][0]["content"] =
        std::string(static_cast<size_t>(1 + below(300)), 'a' + static_cast<char>(below(26)));
    if (below(4) == 0) made["n"] = 1 + below(3);
    if (below(4) == 0) made["logprobs"] = true;
    if (below(8) == 0) made["stop"] = "e";
    if (below(8) == 0) made["draft"] = false;
    return made;
  }

  void one() {
    if (!client_ || below(10) == 0) {
      client_.emplace(server_.port());
      client_->patience = std::chrono::minutes(4);  // on a busy machine, among many
    }
    const bool stream = below(2) == 0;
    json made = body();
    made["stream"] = stream;
    switch (below(24)) {
      case 0:
      case 1: return leave_in_mid_stream(std::move(made));
      case 2:
      case 3: return leave_at_once(made);
      case 4: return never_read(std::move(made));
      case 5:
      case 6: return nonsense();
      case 7: return look();
      default: return read(made, stream);
    }
  }

  void read(const json& made, bool stream) {
    client_->send(WholeServer::request("/v1/chat/completions", made));
    const http::Reply reply = client_->read();
    ASSERT_EQ(reply.status, 200) << reply.body.substr(0, 200);
    ASSERT_TRUE(reply.whole);
    if (stream) {
      ASSERT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
      ASSERT_EQ(reply.body.find("\"error\""), std::string::npos);
    }
    ++whole_;
  }
  void leave_in_mid_stream(json made) {
    made["stream"] = true, made["max_tokens"] = 2000, made["ignore_eos"] = true;
    client_->send(WholeServer::request("/v1/chat/completions", made));
    client_->read_raw(static_cast<size_t>(1 + below(3000)));
    client_.reset();
  }
  void leave_at_once(const json& made) {
    const std::string request = WholeServer::request("/v1/chat/completions", made);
    client_->send(request.substr(0, below(4) == 0 ? request.size() / 2 : request.size()));
    client_.reset();
  }
  /// Over the Unix socket, for which the kernel holds little: the bound on unsent bytes is reached.
  void never_read(json made) {
    made["stream"] = true, made["max_tokens"] = 800, made["ignore_eos"] = true, made["logprobs"] = true;
    made["n"] = 2;
    stalled_.emplace(server_.unix_socket());
    stalled_->send(WholeServer::request("/v1/chat/completions", made));
  }
  void nonsense() {
    client_->send(WholeServer::request("/v1/chat/completions", chat({{"temperature", -1}})));
    ASSERT_EQ(client_->read().status, 400);
  }
  void look() {
    client_->send("GET /" + std::string(below(2) == 0 ? "metrics" : "slots") +
                  " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_EQ(client_->read().status, 200);
  }

  const WholeServer& server_;
  std::mt19937_64 random_;
  std::optional<http::Client> client_, stalled_;
  int whole_ = 0;
};

TEST(ServerSoak, ten_thousand_requests_leave_nothing_behind) {
  constexpr int kThreads = 8, kEach = 125, kRounds = 10;
  WholeServerOptions options;
  options.service.limits.queue = 1000;
  options.cache_bytes = size_t{64} << 20;  // full of old prefixes after a round or two
  options.http.limits.unsent_bytes = size_t{64} << 10;
  options.http.unix_socket = testing::TempDir() + "slip_soak_" + std::to_string(::getpid());
  options.http.times.write = std::chrono::milliseconds(300);
  const WholeServer server(options);
  std::vector<size_t> bytes;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    std::atomic<int> whole{0};
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&server, &whole, round, i] {
        Clients clients(server, static_cast<uint64_t>(round * kThreads + i));
        clients.run(kEach);
        whole += clients.whole();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_GT(whole, kThreads * kEach / 3);
    ASSERT_TRUE(http::eventually([&] {
      const engine::Load load = server.model->load_now();
      return server.service.active() == 0 && load.running == 0 && load.waiting == 0 &&
             load.free_bytes == load.cache_bytes && server.server->counts().connections == 0;
    })) << "something is left after round "
        << round;
    bytes.push_back(bytes_in_use());
  }
  EXPECT_GT(server.server->counts().dropped, 0u) << "some did not read";
  EXPECT_LT(bytes.back(), bytes[2] + (size_t{1} << 19))
      << "7,000 requests later: " << testing::PrintToString(bytes);
}

}  // namespace
}  // namespace slip::server::api
