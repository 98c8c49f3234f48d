// From URLs to bytes: what may be reached, what may not, and how much of it.
#include "session/picture_source.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "media/refused.h"
#include "support/program.h"

namespace slip::session {
namespace {

using media::Fault;

/// Answers every connection to a port of 127.0.0.1 with what `answer` makes of the path.
class LocalServer {
 public:
  explicit LocalServer(std::function<std::string(const std::string& path)> answer)
      : answer_(std::move(answer)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    ::listen(socket_, 16);
    thread_ = std::thread([this] { serve(); });
  }
  ~LocalServer() {
    stop_ = true;
    thread_.join();
    ::close(socket_);
  }
  int port() const { return port_; }
  int connections() const { return connections_; }
  std::string url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(port_) + path;
  }
  static std::string ok(const std::string& body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n\r\n" + body;
  }
  static std::string moved(const std::string& to) {
    return "HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd poll{socket_, POLLIN, 0};
      if (::poll(&poll, 1, 20) <= 0) continue;
      const int client = ::accept(socket_, nullptr, nullptr);
      ++connections_;
      char head[4096];
      const ssize_t got = ::read(client, head, sizeof head);
      const std::string line(head, static_cast<size_t>(std::max<ssize_t>(got, 0)));
      const size_t from = line.find(' ') + 1;
      const std::string text = answer_(line.substr(from, line.find(' ', from) - from));
      for (size_t at = 0; at < text.size();) {
        const ssize_t put = ::send(client, text.data() + at, text.size() - at, MSG_NOSIGNAL);
        if (put <= 0) break;
        at += static_cast<size_t>(put);
      }
      ::close(client);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int socket_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

Fault fault_of(const std::string& url, const PictureSources& sources) {
  try {
    read_picture_url(url, "the picture", sources);
  } catch (const media::Refused& refused) {
    EXPECT_TRUE(std::string(refused.what()).starts_with("the picture: ")) << refused.what();
    return refused.fault();
  }
  return Fault::kNone;
}

/// The web, with this machine for a part of it.
PictureSources near_web() {
  return {.web = true, .allow_address = [](const sockaddr&, socklen_t) { return true; }, .any_port = true};
}

TEST(PictureSource, the_web_is_closed_unless_it_is_opened) {
  LocalServer server([](const std::string&) { return LocalServer::ok("x"); });
  EXPECT_EQ(fault_of(server.url("/a.png"), {}), Fault::kUrlNotAllowed);
  EXPECT_EQ(fault_of("ftp://example.org/a.png", near_web()), Fault::kBadUrl);
  EXPECT_EQ(fault_of("a.png", near_web()), Fault::kBadUrl);
  EXPECT_EQ(server.connections(), 0);
}

TEST(PictureSource, no_spelling_of_an_address_that_is_not_public_gets_through) {
  LocalServer server([](const std::string&) { return LocalServer::ok("secret"); });
  const PictureSources sources{.web = true, .any_port = true};
  for (const char* host :
       {"127.0.0.1",          "localhost",  "127.1",      "0.0.0.0",         "0",
        "2130706433",         "0x7f000001", "0177.0.0.1", "127.0.0.1.",      "[::1]",
        "[::ffff:127.0.0.1]", "[::]",       "LOCALHOST",  "169.254.169.254", "10.0.0.1",
        "192.168.0.1",        "172.16.0.1", "100.64.0.1", "[fe80::1]",       "[fd00::1]"}) {
    const Fault fault = fault_of(server.url("/a.png", host), sources);
    EXPECT_TRUE(fault == Fault::kUrlNotAllowed || fault == Fault::kBadUrl || fault == Fault::kNotFetched)
        << host;
  }
  EXPECT_EQ(fault_of(server.url("/a.png"), sources), Fault::kUrlNotAllowed);
  EXPECT_EQ(server.connections(), 0) << "nothing was even connected to";
}

TEST(PictureSource, a_redirect_leads_nowhere_that_the_url_could_not) {
  LocalServer hidden([](const std::string&) { return LocalServer::ok("secret"); });
  LocalServer server([&](const std::string& path) {
    return path == "/a" ? LocalServer::moved(hidden.url("/b")) : LocalServer::moved("file:///etc/passwd");
  });
  PictureSources sources = near_web();
  sources.allow_address = [&](const sockaddr& address, socklen_t) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port) == server.port();
  };
  EXPECT_EQ(fault_of(server.url("/a"), sources), Fault::kUrlNotAllowed);
  EXPECT_EQ(fault_of(server.url("/file"), sources), Fault::kBadUrl);
  EXPECT_EQ(hidden.connections(), 0);
}

TEST(PictureSource, three_redirects_are_followed_and_no_more) {
  LocalServer server([&](const std::string& path) {
    const int left = path[1] - '0';
    return left == 0 ? LocalServer::ok("picture") : LocalServer::moved("/" + std::to_string(left - 1));
  });
  const auto bytes = read_picture_url(server.url("/3"), "p", near_web());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "picture");
  EXPECT_EQ(fault_of(server.url("/4"), near_web()), Fault::kNotFetched);
}

TEST(PictureSource, what_is_no_answer_is_not_fetched) {
  LocalServer server([](const std::string& path) -> std::string {
    if (path == "/missing") return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    if (path == "/broken") return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";
    return "";
  });
  for (const char* path : {"/missing", "/broken", "/nothing"})
    EXPECT_EQ(fault_of(server.url(path), near_web()), Fault::kNotFetched) << path;
  EXPECT_EQ(fault_of("http://127.0.0.1:1/a.png", near_web()), Fault::kNotFetched);
  EXPECT_EQ(fault_of("http://user:password@127.0.0.1/a.png", near_web()), Fault::kUrlNotAllowed);
}

TEST(PictureSource, a_body_is_bounded_whether_it_says_its_length_or_not) {
  const std::string large(5000, 'x');
  LocalServer server([&](const std::string& path) {
    return path == "/says" ? LocalServer::ok(large) : "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + large;
  });
  PictureSources sources = near_web();
  sources.limits.bytes = 4999;
  EXPECT_EQ(fault_of(server.url("/says"), sources), Fault::kTooManyBytes);
  EXPECT_EQ(fault_of(server.url("/silent"), sources), Fault::kTooManyBytes);
  sources.limits.bytes = 5000;
  EXPECT_EQ(read_picture_url(server.url("/silent"), "p", sources).size(), 5000u);
}

TEST(PictureSource, only_named_domains_and_usual_ports_where_that_is_asked_for) {
  LocalServer server([](const std::string&) { return LocalServer::ok("x"); });
  PictureSources sources = near_web();
  sources.domains = {"example.org"};
  EXPECT_EQ(fault_of(server.url("/a"), sources), Fault::kUrlNotAllowed);
  sources.domains = {"127.0.0.1"};
  EXPECT_EQ(fault_of(server.url("/a"), sources), Fault::kNone);
  sources.any_port = false;
  EXPECT_EQ(fault_of(server.url("/a"), sources), Fault::kUrlNotAllowed);
}

TEST(PictureSource, one_that_never_answers_is_given_up) {
  LocalServer server([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return LocalServer::ok("x");
  });
  PictureSources sources = near_web();
  sources.fetch_limit = std::chrono::milliseconds(200);
  EXPECT_EQ(fault_of(server.url("/a"), sources), Fault::kNotFetched);
  std::stop_source stop;
  stop.request_stop();
  sources.fetch_limit = std::chrono::seconds(10);
  try {
    read_picture_url(server.url("/a"), "p", sources, stop.get_token());
    FAIL();
  } catch (const media::Refused& refused) {
    EXPECT_EQ(refused.fault(), Fault::kCancelled);
  }
}

TEST(PictureSource, a_file_below_the_folder_alone) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("a.png"), "picture");
  const PictureSources sources{.folder = folder.path()};
  EXPECT_EQ(read_picture_url("file://a.png", "p", sources).size(), 7u);
  EXPECT_EQ(fault_of("file:///etc/passwd", sources), Fault::kUrlNotAllowed);
  EXPECT_EQ(fault_of("file://a.png", {}), Fault::kUrlNotAllowed);
}

}  // namespace
}  // namespace slip::session
