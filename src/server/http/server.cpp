#include "server/http/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "server/http/connection.h"
#include "server/http/core.h"
#include "server/http/listen_socket.h"

namespace slip::server::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kAcceptPause{
    100};                            // without file descriptors left, trying at once is no use
constexpr size_t kOtherFiles = 256;  // weights, pipes, logs

/// Notices a client whose machine or network went away without a word within two minutes.
void watch_peer(int file) {
  const int on = 1, idle = 60, interval = 15, probes = 4;
  ::setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a token must not wait for the next one
}

std::string peer_name(const asio::ip::tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "?";
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  if (address.is_v6()) return fmt::format("[{}]:{}", address.to_string(), endpoint.port());
  return fmt::format("{}:{}", address.to_string(), endpoint.port());
}

std::string peer_name(const asio::local::stream_protocol::socket&) {
  return "unix";
}

Options checked(Options options) {
  if (options.host.empty() && options.unix_socket.empty())
    fail_usage("the server has nowhere to listen: give it a host or a Unix socket");
  std::string& base = options.base_path;
  while (!base.empty() && base.back() == '/') base.pop_back();
  if (!base.empty() && base.front() != '/') fail_usage("--base-path {}: begin it with a slash", base);
  return options;
}

}  // namespace

class Server::Impl {
 public:
  Impl(Options options, Handler handler, ErrorBody error_body)
      : core_(checked(std::move(options)), std::move(handler), std::move(error_body)) {
    if (!core_.options.host.empty()) sockets_ = ListenSocket::tcp(core_.options.host, core_.options.port);
    if (!core_.options.unix_socket.empty())
      sockets_.push_back(ListenSocket::unix_path(core_.options.unix_socket, core_.options.unix_mode));
    raise_file_limit(core_.options.limits.connections + kOtherFiles);
    for (int i = 0; i < std::max(1, core_.options.io_threads); ++i)
      threads_.push_back(std::make_unique<Thread>());
  }

  ~Impl() { stop(); }

  void start() {
    if (started_) return;
    started_ = true;
    for (ListenSocket& socket : sockets_) listen(socket);
    for (const auto& thread : threads_) thread->start();
  }

  void stop() {
    if (stopped_) return;
    stopped_ = true;
    for (const auto& thread : threads_) {
      on_thread(*thread, [this, &thread] {
        if (thread == threads_.front()) close_entrances();
        abort(thread->io, false);
      });
    }
    core_.workers.stop();
    // Connections that were accepted on the first thread for another one may have arrived behind the abort.
    for (const auto& thread : threads_) on_thread(*thread, [this, &thread] { abort(thread->io, false); });
    for (const auto& thread : threads_) thread->stop();
    sockets_.clear();
  }

  void abort_requests() {
    for (const auto& thread : threads_) on_thread(*thread, [this, &thread] { abort(thread->io, true); });
  }

  Core& core() { return core_; }
  const std::vector<ListenSocket>& sockets() const { return sockets_; }

 private:
  struct Thread {
    IoThread io;
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{io.context.get_executor()};
    std::thread thread;

    void start() {
      thread = std::thread([this] { io.context.run(); });
    }
    void stop() {
      work.reset();
      if (thread.joinable()) thread.join();
    }
  };

  template <typename Protocol>
  struct Entry {
    Entry(asio::io_context& context, const Protocol& protocol, ListenSocket& socket)
        : acceptor(context, protocol, socket.release()),
          pause(context),
          bound_to(socket.address()),
          host_check(socket.kind() != ListenSocket::Kind::kUnix && socket.is_loopback()) {}
    asio::basic_socket_acceptor<Protocol> acceptor;
    asio::steady_timer pause;
    std::string bound_to;
    bool host_check;
  };
  using Tcp = asio::ip::tcp;
  using Unix = asio::local::stream_protocol;

  void listen(ListenSocket& socket) {
    asio::io_context& context = threads_.front()->io.context;
    if (socket.kind() == ListenSocket::Kind::kUnix) {
      accept(*unix_entries_.emplace_back(std::make_unique<Entry<Unix>>(context, Unix(), socket)));
    } else {
      const Tcp protocol = socket.kind() == ListenSocket::Kind::kIp6 ? Tcp::v6() : Tcp::v4();
      accept(*tcp_entries_.emplace_back(std::make_unique<Entry<Tcp>>(context, protocol, socket)));
    }
  }

  template <typename Protocol>
  void accept(Entry<Protocol>& entry) {
    Thread& thread = *threads_[next_thread_++ % threads_.size()];
    entry.acceptor.async_accept(thread.io.context, [this, &entry, &thread](const error_code& error,
                                                                           typename Protocol::socket socket) {
      if (error == asio::error::operation_aborted || !entry.acceptor.is_open()) return;
      if (!error) {
        admit(entry, thread, std::move(socket));
        return accept(entry);
      }
      entry.pause.expires_after(kAcceptPause);
      entry.pause.async_wait([this, &entry](const error_code& ended) {
        if (!ended && entry.acceptor.is_open()) accept(entry);
      });
    });
  }

  template <typename Protocol>
  void admit(const Entry<Protocol>& entry, Thread& thread, typename Protocol::socket socket) {
    const size_t count = core_.connections.load(), limit = core_.options.limits.connections;
    if (count >= limit + kOtherFiles / 2) return;  // past the refusals too: closed without a word
    if (std::is_same_v<Protocol, Tcp>) watch_peer(socket.native_handle());
    Entrance entrance{peer_name(socket), entry.bound_to, entry.host_check, count >= limit};
    auto connection = std::make_shared<Connection>(core_, thread.io, Connection::Socket(std::move(socket)),
                                                   std::move(entrance));
    asio::dispatch(thread.io.context, [connection] { connection->begin(); });
  }

  void close_entrances() {
    error_code ignored;
    for (const auto& entry : tcp_entries_) entry->acceptor.close(ignored), entry->pause.cancel();
    for (const auto& entry : unix_entries_) entry->acceptor.close(ignored), entry->pause.cancel();
  }

  static void abort(IoThread& thread, bool only_active) {
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, connection] : thread.connections) all.push_back(connection);
    for (const auto& connection : all) connection->abort(only_active);
  }

  /// Runs it on the thread and waits for it.
  void on_thread(Thread& thread, const std::function<void()>& what) {
    if (!thread.thread.joinable()) return what();
    std::promise<void> done;
    asio::post(thread.io.context, [&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  Core core_;
  std::vector<ListenSocket> sockets_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<Entry<Tcp>>> tcp_entries_;
  std::vector<std::unique_ptr<Entry<Unix>>> unix_entries_;
  size_t next_thread_ = 0;
  bool started_ = false, stopped_ = false;
};

Server::Server(Options options, Handler handler, ErrorBody error_body)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler), std::move(error_body))) {}

Server::~Server() = default;

void Server::start() {
  impl_->start();
}
void Server::stop() {
  impl_->stop();
}

int Server::port() const {
  for (const ListenSocket& socket : impl_->sockets())
    if (socket.kind() != ListenSocket::Kind::kUnix) return socket.port();
  return 0;
}

std::vector<std::string> Server::urls() const {
  std::vector<std::string> urls;
  for (const ListenSocket& socket : impl_->sockets()) urls.push_back(socket.url());
  return urls;
}

bool Server::bound_wide() const {
  return std::any_of(impl_->sockets().begin(), impl_->sockets().end(), [](const ListenSocket& socket) {
    return socket.kind() != ListenSocket::Kind::kUnix && !socket.is_loopback();
  });
}

Counts Server::counts() const {
  const Core& core = impl_->core();
  return {core.connections.load(), core.active(), core.requests.load(), core.refusals.load(),
          core.dropped.load()};
}

void Server::close_behind_answers() {
  impl_->core().closing->store(true);
}
void Server::refuse_requests(int seconds) {
  impl_->core().refusing_seconds.store(std::max(1, seconds));
}
bool Server::wait_idle(std::chrono::milliseconds wait) const {
  return impl_->core().wait_idle(wait);
}
void Server::abort_requests() {
  impl_->abort_requests();
}

}  // namespace slip::server::http
