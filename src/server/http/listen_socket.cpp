#include "server/http/listen_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace slip::server::http {

namespace {

constexpr int kBacklog = 4096;  // the kernel lowers it to what it allows

std::string reason(int error) {
  return std::strerror(error);
}

[[noreturn]] void fail_listen(const std::string& host, int port, int error) {
  if (error == EADDRINUSE)
    fail(ErrorKind::kRuntime,
         "port {} on {} is taken by another program; stop that program or choose another port with --port",
         port, host);
  if (error == EACCES)
    fail(ErrorKind::kRuntime,
         "port {} on {} needs more rights than this user has; choose one from 1024 up with --port", port,
         host);
  if (error == EADDRNOTAVAIL)
    fail_usage("--host {}: this machine has no such address; use 127.0.0.1 for itself, 0.0.0.0 for all",
               host);
  fail(ErrorKind::kRuntime, "cannot listen on port {} of {}: {}", port, host, reason(error));
}

struct AddressList {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

std::unique_ptr<addrinfo, AddressList> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0)
    fail_usage(
        "--host {}: no address is known by this name ({}); use 127.0.0.1 for this machine, 0.0.0.0 for all",
        host, ::gai_strerror(error));
  return std::unique_ptr<addrinfo, AddressList>(list);
}

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text.data();
}

void set_port(sockaddr_storage& address, int port) {
  const auto value = htons(static_cast<uint16_t>(port));
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = value;
  }
}

int port_of(int file) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

bool loops_back(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127);
  }
  return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
}

/// Whether somebody accepts connections at this path.
bool is_served(const sockaddr_un& address) {
  const int file = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return false;
  const int result = ::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool served = result == 0 || errno == EAGAIN;  // EAGAIN: its queue is full
  ::close(file);
  return served;
}

void remove_left_over(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return;
  if (!S_ISSOCK(found.st_mode))
    fail_usage("--unix-socket {}: there is a file of this name that is no socket; choose another path", path);
  if (is_served(address))
    fail(ErrorKind::kRuntime,
         "{} is taken by another program; stop that program or choose another --unix-socket", path);
  ::unlink(path.c_str());
}

}  // namespace

std::vector<ListenSocket> ListenSocket::tcp(const std::string& host, int port) {
  if (port < 0 || port > 65535) fail_usage("--port {}: ports go from 0 (any free one) to 65535", port);
  std::vector<ListenSocket> sockets;
  int last_error = 0;
  const auto list = resolve(host, port);
  for (const addrinfo* entry = list.get(); entry; entry = entry->ai_next) {
    ListenSocket made;
    made.file_ = ::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made.file_ < 0) {
      last_error = errno;  // such as IPv6 on a machine without it
      continue;
    }
    sockaddr_storage address{};
    std::memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    if (!sockets.empty()) set_port(address, sockets.front().port());
    const int on = 1, off = 0;
    ::setsockopt(made.file_, SOL_SOCKET, SO_REUSEADDR, &on,
                 sizeof on);  // a restart need not wait for old connections
    if (entry->ai_family == AF_INET6) ::setsockopt(made.file_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    if (::bind(made.file_, where, entry->ai_addrlen) != 0 || ::listen(made.file_, kBacklog) != 0) {
      last_error = errno;
      // A name may stand for an address that this machine lacks (::1); a taken port is never passed over.
      if (last_error == EADDRNOTAVAIL && (entry->ai_next || !sockets.empty())) continue;
      fail_listen(host, port, last_error);
    }
    made.kind_ = entry->ai_family == AF_INET6 ? Kind::kIp6 : Kind::kIp4;
    made.address_ = numeric(where, entry->ai_addrlen);
    made.port_ = port_of(made.file_);
    made.loopback_ = loops_back(address);
    sockets.push_back(std::move(made));
  }
  if (sockets.empty()) fail_listen(host, port, last_error);
  return sockets;
}

ListenSocket ListenSocket::unix_path(const std::string& path, int mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    fail_usage(
        "--unix-socket {}: the path is {} bytes long, the system takes at most {}; choose a shorter one",
        path, path.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  remove_left_over(path, address);

  ListenSocket made;
  made.kind_ = Kind::kUnix;
  made.file_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // The mode is set before listen(): until then nobody can connect.
  if (made.file_ < 0 || ::bind(made.file_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail(ErrorKind::kRuntime, "--unix-socket {}: cannot make the socket: {}", path, reason(errno));
  made.address_ = path;
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) made.device_ = found.st_dev, made.inode_ = found.st_ino;
  if (::chmod(path.c_str(), static_cast<mode_t>(mode)) != 0 || ::listen(made.file_, kBacklog) != 0)
    fail(ErrorKind::kRuntime, "--unix-socket {}: cannot listen: {}", path, reason(errno));
  return made;
}

ListenSocket& ListenSocket::operator=(ListenSocket&& other) noexcept {
  if (this == &other) return *this;
  close();
  file_ = std::exchange(other.file_, -1);
  kind_ = other.kind_;
  address_ = std::move(other.address_);
  port_ = other.port_;
  loopback_ = other.loopback_;
  device_ = other.device_;
  inode_ = std::exchange(other.inode_, 0);
  return *this;
}

int ListenSocket::release() {
  return std::exchange(file_, -1);
}

void ListenSocket::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  struct stat found {};
  if (inode_ == 0 || ::lstat(address_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) ::unlink(address_.c_str());
  inode_ = 0;
}

std::string ListenSocket::url() const {
  if (kind_ == Kind::kUnix) return "unix:" + address_;
  if (kind_ == Kind::kIp6) return fmt::format("http://[{}]:{}", address_, port_);
  return fmt::format("http://{}:{}", address_, port_);
}

size_t raise_file_limit(size_t files) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < files) {
    limit.rlim_cur = std::min<rlim_t>(files, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

}  // namespace slip::server::http
