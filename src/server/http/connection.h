// Connection: one client's socket. It reads a request, has its head judged before the body is read, hands it to the
// workers, sends the answer, and begins anew.
//
// Everything here runs on one I/O thread, so there are no locks; only the Answer is shared. Reads and writes are plain
// non-blocking calls made when the socket is ready, into a buffer that the thread's connections share: an idle connection
// holds no buffer. While a request is answered the socket is watched on: its end is the client's leaving, bytes are a
// pipelined request, which ends the connection behind this answer.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/http/answer.h"
#include "server/http/core.h"
#include "server/http/request_parser.h"

namespace slip::server::http {

class Connection;

/// What the connections of one I/O thread share.
struct IoThread {
  boost::asio::io_context context{1};
  std::vector<char> scratch = std::vector<char>(size_t{64} << 10);
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
};

/// Where a connection came in.
struct Entrance {
  std::string peer;
  std::string bound_to;
  bool host_check = false;
  bool over_limit = false;  // one connection too many
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(Core& core, IoThread& thread, Socket socket, Entrance entrance);
  ~Connection();

  void begin();
  /// Closes at once; unsent bytes are lost. `only_active` spares connections that are between two requests.
  void abort(bool only_active);

 private:
  enum class State {
    kRequest,    // between requests, in a head, in a body
    kAnswering,  // the handler has it
    kRefusing,   // a refusal is being sent
    kLingering,  // nothing more is sent, what comes is thrown away until the client closes
    kClosed,
  };
  using Clock = std::chrono::steady_clock;

  void watch_reads();
  void on_readable();
  void on_bytes(std::string_view bytes);
  void on_end();
  void read_request(std::string_view bytes);
  void on_head();
  void on_body_progress();
  void dispatch(std::string_view behind);

  std::optional<Refusal> judge_head(const AccessQuestion& question);
  void refuse(const Refusal& refusal);
  void send_head_answer(int status, const std::vector<Header>& headers, std::string body, bool keep_alive);

  void on_wake();
  void flush();
  bool send_some();
  void end_answer(bool keep_alive);
  void next_request();
  void linger();
  void drop();
  void close();

  void set_deadline(std::chrono::milliseconds from_now);
  void arm_timer();
  void on_deadline();
  void count_active(bool active);

  Core& core_;
  IoThread& thread_;
  Socket socket_;
  const Entrance entrance_;
  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point timer_at_ = Clock::time_point::max();

  State state_ = State::kRequest;
  RequestParser parser_;
  RequestHead head_;
  std::string id_, path_, query_, key_;
  std::vector<Header> cors_;
  std::shared_ptr<Answer> answer_;
  std::vector<std::string> sending_;
  size_t sent_of_first_ = 0;
  size_t counted_body_ = 0;  // in core_.arriving_bytes
  size_t thrown_away_ = 0;
  bool keep_refused_ = false;  // the connection goes on behind a refusal
  bool active_ = false;
  bool reading_ = false, writing_ = false, ended_ = false;
};

}  // namespace slip::server::http
