// serve: its options from three places, its help, and a server that starts, answers and ends.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "cli/commands/serve_flags.h"
#include "support/program.h"

namespace slip::cli {
namespace {

TEST(ServeFlags, a_file_gives_options_as_the_command_line_does) {
  EXPECT_EQ(
      file_arguments("# a comment\n\nport = 9000\n  strict-models=true\nquiet = off\nmodel = a b \n", "f"),
      (Arguments{"--port", "9000", "--strict-models", "--model", "a b"}));
  EXPECT_THROW(file_arguments("portt = 1\n", "f"), Error);
  EXPECT_THROW(file_arguments("port 1\n", "f"), Error);
  EXPECT_THROW(file_arguments("quiet = perhaps\n", "f"), Error);
}

TEST(ServeFlags, the_command_line_overrules_the_environment_and_that_the_file) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("serve.conf"), "port = 1001\nqueue = 7\nmax-sequences = 3\n");
  ::setenv("SLIPSTREAM_PORT", "1002", 1);
  ::setenv("SLIPSTREAM_QUEUE", "8", 1);
  server::ServeOptions options;
  const bool parsed = parse_serve({"--config", folder.path("serve.conf"), "--port", "1003"}, options);
  ::unsetenv("SLIPSTREAM_PORT");
  ::unsetenv("SLIPSTREAM_QUEUE");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(options.http.port, 1003);
  EXPECT_EQ(options.service.limits.queue, 8);
  EXPECT_EQ(options.sequences, 3);
}

TEST(ServeFlags, times_are_seconds_and_sizes_have_units) {
  server::ServeOptions options;
  ASSERT_TRUE(parse_serve({"--drain-grace", "0.5", "--max-body", "1MiB", "--cache", "2GB"}, options));
  EXPECT_EQ(options.drain_grace, std::chrono::milliseconds(500));
  EXPECT_EQ(options.http.limits.body_bytes, size_t{1} << 20);
  EXPECT_EQ(options.cache_bytes, 2'000'000'000u);
  EXPECT_THROW(parse_serve({"--port", "70000"}, options), Error);
  EXPECT_THROW(parse_serve({"--queue", "-1"}, options), Error);
}

TEST(ServeHelp, fits_a_screen_per_topic) {
  for (const std::string topic : {"", "model", "network", "limits", "images", "running"}) {
    std::vector<std::string> args{"serve", "--help"};
    if (!topic.empty()) args.push_back(topic);
    const test::Result result = test::run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 26) << topic;
  }
  const test::Result unknown = test::run({"serve", "--help", "netwrk"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("network"), std::string::npos) << unknown.err;
}

/// The whole answer to a request, or nothing when nobody listens.
std::string ask(int port, const std::string& head, const std::string& body = "") {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = head +
                                " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body;
    if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char bytes[4096];
      for (ssize_t got; (got = ::recv(socket, bytes, sizeof bytes, 0)) > 0;)
        answer.append(bytes, static_cast<size_t>(got));
    }
  }
  ::close(socket);
  return answer;
}

class Serve : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = test::start(
        {"serve", "--port", "0", "-t", "1", "--context", "2048", "--cache", "256MiB", "--drain-grace", "0"},
        "", folder_.path());
    for (int i = 0; i < 6000 && port_ == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      err_ = test::read_file(folder_.path("err.txt"));
      const size_t at = err_.find("listening on http://127.0.0.1:");
      if (at != std::string::npos && err_.find(".message.content)") != std::string::npos)
        port_ = std::atoi(err_.c_str() + at + 30);
    }
    ASSERT_GT(port_, 0) << err_;
  }
  void TearDown() override {
    if (child_ > 0) ::kill(child_, SIGKILL), test::finish(child_, folder_.path());
  }
  test::TemporaryFolder folder_;
  pid_t child_ = -1;
  int port_ = 0;
  std::string err_;
};

TEST_F(Serve, starts_says_what_it_has_answers_and_ends_with_0) {
  for (const char* part : {"no key, loopback only", "model: ", "device: ", "conversations of",
                           "drafting: ", "curl ", "from openai import OpenAI"})
    EXPECT_NE(err_.find(part), std::string::npos) << part << "\n" << err_;
  EXPECT_NE(ask(port_, "GET /health").find(" 200 "), std::string::npos);
  const std::string body = R"({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8})";
  const std::string whole = ask(port_, "POST /v1/chat/completions", body);
  EXPECT_NE(whole.find("\"finish_reason\""), std::string::npos) << whole;
  const std::string stream =
      ask(port_, "POST /v1/chat/completions", body.substr(0, body.size() - 1) + R"(, "stream": true})");
  EXPECT_NE(stream.find("data: [DONE]"), std::string::npos) << stream;
  ::kill(child_, SIGTERM);
  const test::Result result = test::finish(std::exchange(child_, -1), folder_.path());
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Serve, bench_serve_measures_it_and_compares_variants) {
  const std::string url = "http://127.0.0.1:" + std::to_string(port_);
  for (const std::vector<std::string>& load :
       {std::vector<std::string>{"--concurrency", "1,3"}, std::vector<std::string>{"--rate", "50,100"}}) {
    std::vector<std::string> args{
        "bench-serve", "--url",      url, "--json",   "-n", "5",         "--prompt",
        "20",          "--answer",   "6", "--rounds", "2",  "--variant", "plain={\"draft\": false}",
        "--variant",   "as it is={}"};
    args.insert(args.end(), load.begin(), load.end());
    const test::Result result = test::run(args);
    ASSERT_EQ(result.code, 0) << result.err;
    const auto report = nlohmann::json::parse(result.out);
    ASSERT_EQ(report["results"].size(), 4u);
    for (const auto& one : report["results"]) {
      EXPECT_EQ(one["answered"], 10);
      EXPECT_EQ(one["failed"], 0);
      EXPECT_EQ(one["output_tokens"], 6);
      EXPECT_GT(one["tokens_per_second"], 0);
      EXPECT_GT(one["first_token_seconds"]["p99"], 0);
    }
    EXPECT_EQ(report["results"][0]["server"], "plain");
  }
  const test::Result table =
      test::run({"bench-serve", "--url", url, "--concurrency", "2", "-n", "3", "--answer", "3"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("| 2 at once |"), std::string::npos) << table.out;
}

TEST_F(Serve, a_taken_port_is_one_sentence_and_never_another_port) {
  const test::Result second = test::run({"serve", "--port", std::to_string(port_), "--context", "2048"});
  EXPECT_NE(second.code, 0);
  EXPECT_NE(second.err.find(std::to_string(port_)), std::string::npos) << second.err;
  EXPECT_EQ(second.err.find("listening"), std::string::npos);
}

}  // namespace
}  // namespace slip::cli
