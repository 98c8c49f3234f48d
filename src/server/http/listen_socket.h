// A listening socket, TCP or Unix, made before a model is loaded: a taken port ends the start at once, with a sentence.
//
// A Unix socket's file that nobody listens on is left over from a server that was killed and is replaced; a file that is
// no socket, or one with a server behind it, is not touched. The file goes with the server that made it.
#pragma once

#include <string>
#include <vector>

#include "server/http/options.h"

namespace slip::server::http {

class ListenSocket {
 public:
  enum class Kind { kIp4, kIp6, kUnix };

  /// One for each address that `host` stands for. The addresses behind the first one get its port.
  static std::vector<ListenSocket> tcp(const std::string& host, int port);
  static ListenSocket unix_path(const std::string& path, int mode);

  ListenSocket(ListenSocket&& other) noexcept { *this = std::move(other); }
  ListenSocket& operator=(ListenSocket&& other) noexcept;
  ~ListenSocket() { close(); }

  /// The caller owns what it gets; the file of a Unix socket stays with this.
  int release();
  Kind kind() const { return kind_; }
  /// "127.0.0.1", "::1" or the path.
  const std::string& address() const { return address_; }
  int port() const { return port_; }
  bool is_loopback() const { return loopback_; }
  /// "http://127.0.0.1:8080", "http://[::1]:8080" or "unix:/run/slipstream.sock".
  std::string url() const;

 private:
  ListenSocket() = default;
  void close();

  int file_ = -1;
  Kind kind_ = Kind::kIp4;
  std::string address_;
  int port_ = 0;
  bool loopback_ = false;
  unsigned long long device_ = 0, inode_ = 0;  // of the Unix socket's file
};

/// Raises the soft limit on open files towards `files`, as far as the system lets us; returns what it is then.
size_t raise_file_limit(size_t files);

}  // namespace slip::server::http
