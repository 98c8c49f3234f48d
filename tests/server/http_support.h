// A server with a small handler, and a client that sends raw bytes to it over a real socket. Waits are bounded by
// kPatience, which no passing test uses up.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/server.h"
#include "server/http/text.h"

namespace slip::server::http {

constexpr std::chrono::milliseconds kPatience{20'000};

inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

struct Reply {
  int status = 0;  // 0: none came
  std::vector<Header> headers;
  std::string body;
  bool whole = false;  // the body ended as its head said
  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

class Client {
 public:
  explicit Client(int port) {
    file_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  explicit Client(const std::string& path) {
    file_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  Client(Client&& other) noexcept
      : file_(std::exchange(other.file_, -1)), connected_(other.connected_), text_(std::move(other.text_)) {}
  Client& operator=(Client&&) = delete;
  ~Client() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }
  void close_sending() { ::shutdown(file_, SHUT_WR); }
  /// False when the server closed before all was taken.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  /// The next answer; the bytes behind it stay for the one after.
  Reply read(bool head_only = false) {
    Reply reply;
    size_t end;
    while ((end = text_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return reply;
    parse_head(text_.substr(0, end + 2), reply);
    text_.erase(0, end + 4);
    reply.whole = head_only || reply.status < 200 || reply.status == 204 || read_body(reply);
    return reply;
  }
  /// Waits for so many bytes of a body in chunks, framing included.
  std::string read_raw(size_t least) {
    while (text_.size() < least && more()) continue;
    return std::exchange(text_, {});
  }
  /// What comes until the server closes; fails the test when it does not.
  std::string read_to_end() {
    while (more()) continue;
    EXPECT_TRUE(ended_) << "the server did not close the connection";
    return std::exchange(text_, {});
  }
  bool ended() const { return ended_; }
  /// Over a Unix socket: whether the server has read all that was sent.
  bool all_was_read() const {
    int unread = 0;
    return ::ioctl(file_, TIOCOUTQ, &unread) == 0 && unread == 0;
  }
  int file() const { return file_; }
  std::chrono::milliseconds patience = kPatience;

 private:
  bool more() {
    pollfd entry{file_, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(patience.count())) <= 0) return false;
    char buffer[65536];
    const auto size = ::recv(file_, buffer, sizeof buffer, 0);
    ended_ = size <= 0;
    if (size > 0) text_.append(buffer, static_cast<size_t>(size));
    return size > 0;
  }
  static void parse_head(const std::string& head, Reply& reply) {
    size_t line = head.find("\r\n");
    const std::string first = head.substr(0, line);
    if (first.size() > 12 && first.starts_with("HTTP/1.1 ")) reply.status = std::atoi(first.c_str() + 9);
    for (line += 2; line < head.size();) {
      const size_t end = head.find("\r\n", line), colon = head.find(':', line);
      reply.headers.push_back(
          {head.substr(line, colon - line), std::string(trim(head.substr(colon + 1, end - colon - 1)))});
      line = end + 2;
    }
  }
  bool read_body(Reply& reply) {
    if (const auto length = reply.header("content-length"); !length.empty()) {
      const size_t size = std::stoull(std::string(length));
      while (text_.size() < size && more()) continue;
      reply.body = text_.substr(0, size);
      text_.erase(0, size);
      return reply.body.size() == size;
    }
    if (reply.header("transfer-encoding") != "chunked") {
      while (more()) continue;
      reply.body = std::exchange(text_, {});
      return ended_;
    }
    for (;;) {
      size_t end;
      while ((end = text_.find("\r\n")) == std::string::npos)
        if (!more()) return false;
      size_t size = 0;
      std::from_chars(text_.data(), text_.data() + end, size, 16);
      while (text_.size() < end + 2 + size + 2)
        if (!more()) return false;
      reply.body += text_.substr(end + 2, size);
      text_.erase(0, end + 2 + size + 2);
      if (size == 0) return true;
    }
  }

  int file_ = -1;
  bool connected_ = false, ended_ = false;
  std::string text_;
};

/// A handler that answers every path with what it was asked, and keeps the exchanges of /hold for the test.
class Echo {
 public:
  Handler handler() {
    return [this](Request request, std::shared_ptr<Exchange> exchange) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      if (request.path == "/throw") throw std::runtime_error("thrown by the test");
      if (request.path == "/forget") return;
      if (request.path == "/hold") {
        const std::lock_guard lock(mutex_);
        held_.push_back(std::move(exchange));
        arrived_.notify_all();
        return;
      }
      exchange->respond(200, {{"Content-Type", "text/plain"}},
                        request.method + " " + request.path + "?" + request.query + " " + request.body);
    };
  }
  /// The next exchange of /hold.
  std::shared_ptr<Exchange> held() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kPatience, [this] { return !held_.empty(); })) return nullptr;
    auto exchange = std::move(held_.front());
    held_.pop_front();
    return exchange;
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return requests_.size();
  }
  Request last() const {
    const std::lock_guard lock(mutex_);
    return requests_.back();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::shared_ptr<Exchange>> held_;
  std::vector<Request> requests_;
};

inline std::string test_error_body(std::string_view path, const Refusal& refusal) {
  return "{\"path\":\"" + std::string(path) + "\",\"code\":\"" + refusal.code + "\",\"message\":\"" +
         refusal.message + "\"}";
}

/// A running server on a free port. The handler's state outlives it.
struct TestServer {
  explicit TestServer(Options options = {})
      : server(adjusted(std::move(options)), echo.handler(), test_error_body) {
    server.start();
  }
  static Options adjusted(Options options) {
    if (options.port == 8080) options.port = 0;
    return options;
  }
  Client client() const { return Client(server.port()); }
  /// One connection, one request.
  Reply ask(std::string_view bytes) const {
    Client one = client();
    one.send(bytes);
    return one.read(bytes.starts_with("HEAD"));
  }

  Echo echo;
  Server server;
};

inline std::string get(std::string_view path, std::string_view headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) + "\r\n";
}

inline std::string post(std::string_view path, std::string_view body, std::string_view headers = "") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(headers) + "\r\n" + std::string(body);
}

}  // namespace slip::server::http
