// TLS for the fake hub: an authority made on the spot, a certificate for 127.0.0.1 that it signed, and the
// server's side of connections.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace slip::test {

class TlsStream {
 public:
  TlsStream() = default;
  explicit TlsStream(ssl_st* ssl) : ssl_(ssl) {}
  ~TlsStream();
  TlsStream(TlsStream&& other) noexcept : ssl_(other.ssl_) { other.ssl_ = nullptr; }
  TlsStream& operator=(TlsStream&& other) noexcept;
  explicit operator bool() const { return ssl_ != nullptr; }
  ssize_t read(char* data, size_t size);
  ssize_t write(const char* data, size_t size);

 private:
  ssl_st* ssl_ = nullptr;
};

class TlsServer {
 public:
  TlsServer();
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;
  const std::string& authority() const { return authority_; }
  /// An empty stream when the client does not like us.
  TlsStream accept(int fd);

 private:
  ssl_ctx_st* context_;
  std::string authority_;
};

}  // namespace slip::test
