// Where the server listens: ports, addresses, Unix sockets, and the sentences when it cannot.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "server/http_support.h"
#include "slipstream/error.h"

namespace slip::server::http {
namespace {

std::string message_of(const Options& options) {
  Echo echo;
  try {
    const Server server(options, echo.handler(), test_error_body);
  } catch (const Error& error) {
    return error.what();
  }
  return "it listens";
}

TEST(HttpListen, port_0_reports_what_it_got) {
  TestServer test;
  EXPECT_GT(test.server.port(), 0);
  EXPECT_EQ(test.server.urls(),
            std::vector<std::string>{"http://127.0.0.1:" + std::to_string(test.server.port())});
  EXPECT_FALSE(test.server.bound_wide());
}

TEST(HttpListen, a_taken_port_is_one_sentence_and_never_another_port) {
  const TestServer test;
  Options options;
  options.port = test.server.port();
  const std::string message = message_of(options);
  EXPECT_NE(message.find("port " + std::to_string(options.port) + " on 127.0.0.1 is taken"),
            std::string::npos)
      << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(HttpListen, a_port_can_be_used_again_at_once) {
  Options options;
  options.port = 0;
  {
    TestServer test(options);
    options.port = test.server.port();
    EXPECT_EQ(test.ask(get("/a")).status, 200);
  }
  TestServer again(options);
  EXPECT_EQ(again.server.port(), options.port);
  EXPECT_EQ(again.ask(get("/a")).status, 200);
}

TEST(HttpListen, what_is_no_address_is_named) {
  Options options;
  options.host = "192.0.2.1";  // reserved for documentation, so nobody's
  EXPECT_NE(message_of(options).find("--host 192.0.2.1"), std::string::npos);
  options.host = "no such host";
  EXPECT_NE(message_of(options).find("--host no such host"), std::string::npos);
  options.host = "127.0.0.1", options.port = 65536;
  EXPECT_NE(message_of(options).find("--port 65536"), std::string::npos);
  options.port = -1;
  EXPECT_NE(message_of(options).find("--port -1"), std::string::npos);
  options.host.clear();
  EXPECT_NE(message_of(options).find("nowhere to listen"), std::string::npos);
}

TEST(HttpListen, all_addresses_are_wide_and_any_host_name_is_answered) {
  Options options;
  options.host = "0.0.0.0";
  TestServer test(options);
  EXPECT_TRUE(test.server.bound_wide());
  EXPECT_EQ(test.ask("GET /a HTTP/1.1\r\nHost: models.example\r\n\r\n").status, 200);
}

TEST(HttpListen, ip6_is_written_in_brackets) {
  Options options;
  options.host = "::1";
  if (message_of([&] {
        auto free = options;
        free.port = 0;
        return free;
      }()) != "it listens")
    GTEST_SKIP() << "no IPv6 here";
  TestServer test(options);
  EXPECT_EQ(test.server.urls(),
            std::vector<std::string>{"http://[::1]:" + std::to_string(test.server.port())});
  EXPECT_FALSE(test.server.bound_wide());
}

class HttpUnixSocket : public testing::Test {
 protected:
  HttpUnixSocket() {
    options_.host.clear();
    options_.unix_socket = path_;
  }
  ~HttpUnixSocket() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "slip_http_" + std::to_string(::getpid()) + ".sock";
  Options options_;
};

TEST_F(HttpUnixSocket, it_answers_and_its_file_goes_with_it) {
  {
    TestServer test(options_);
    Client client(path_);
    client.send("POST /a HTTP/1.1\r\nHost: any.example\r\nContent-Length: 1\r\n\r\nx");
    EXPECT_EQ(client.read().body, "POST /a? x") << "no browser reaches it, so no host is checked";
    EXPECT_EQ(test.echo.last().peer, "unix");
    EXPECT_EQ(test.server.urls(), std::vector<std::string>{"unix:" + path_});
    EXPECT_FALSE(test.server.bound_wide());
    struct stat found {};
    ASSERT_EQ(::stat(path_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(HttpUnixSocket, it_stands_beside_tcp) {
  options_.host = "127.0.0.1";
  const TestServer test(options_);
  EXPECT_EQ(test.server.urls().size(), 2u);
  EXPECT_EQ(test.ask(get("/a")).status, 200);
  Client client(path_);
  client.send(get("/a"));
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(HttpUnixSocket, a_file_left_over_is_replaced_and_one_in_use_is_not) {
  const int left_over = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left_over, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(left_over);
  const TestServer test(options_);
  EXPECT_NE(message_of(options_).find("is taken"), std::string::npos);
  Client client(path_);
  client.send(get("/a"));
  EXPECT_EQ(client.read().status, 200) << "the second start left the first server alone";
}

TEST_F(HttpUnixSocket, other_files_and_long_paths_are_refused) {
  std::ofstream(path_) << "precious";
  EXPECT_NE(message_of(options_).find("no socket"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path_));
  options_.unix_socket = "/tmp/" + std::string(108, 'x');
  EXPECT_NE(message_of(options_).find("113 bytes long"), std::string::npos);
  options_.unix_socket = "/nowhere/at/all.sock";
  EXPECT_NE(message_of(options_).find("cannot make the socket"), std::string::npos);
}

}  // namespace
}  // namespace slip::server::http
