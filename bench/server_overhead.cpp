// What HTTP costs: the same replies from the library and through sockets, in turns, at 1 and at 32 streams of a tiny
// model; and the memory of 1,000 open streams. Prints markdown.
//
//   cmake --build build/release --target server_overhead && build/release/tests/server_overhead
#include <fcntl.h>
#include <fmt/format.h>

#include <fstream>

#include "server/whole_server.h"

namespace slip::server::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTokens = 200, kRepeats = 15;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Of one stream, in seconds from the moment it was asked for.
struct Times {
  double first = 0, last = 0, cpu = 0;  // cpu: of the process, for all streams together
  double per_token() const { return (last - first) / (kTokens - 1); }
};

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The mean over streams that ran together; processor seconds of a token.
Times mean(const std::vector<Times>& all, double cpu) {
  Times sum;
  for (const Times& one : all) sum.first += one.first, sum.last += one.last;
  const auto count = static_cast<double>(all.size());
  return {sum.first / count, sum.last / count, cpu / count / kTokens};
}

std::string prompt(int i) {
  return std::string(8, 'a' + static_cast<char>(i % 26));
}

Times from_library(const WholeServer& server, int streams) {
  std::vector<Times> times(static_cast<size_t>(streams));
  std::atomic<int> left{streams};
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  for (int i = 0; i < streams; ++i) {
    session::Generation generation{
        .form = session::ReplyForm::kText, .max_tokens = kTokens, .ignore_stop_ids = true};
    generation.sampling.temperature = 0;
    engine::Request request = server.model->request(server.model->raw(prompt(i)), generation);
    request.sink = [&times, &left, begin, i](const engine::Delta& delta) {
      Times& mine = times[static_cast<size_t>(i)];
      mine.last = seconds_since(begin);
      if (mine.first == 0) mine.first = mine.last;
      if (delta.finish != engine::FinishReason::kNone) --left;
    };
    server.model->submit(std::move(request));
  }
  while (left > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return mean(times, cpu_seconds() - cpu);
}

/// One thread reads all sockets, so that the client takes little of the processor.
Times from_sockets(const WholeServer& server, int streams) {
  std::vector<Times> times(static_cast<size_t>(streams));
  std::vector<http::Client> clients;
  std::vector<pollfd> files;
  std::vector<std::string> texts(static_cast<size_t>(streams));
  for (int i = 0; i < streams; ++i) files.push_back({clients.emplace_back(server.port()).file(), POLLIN, 0});
  std::vector<std::string> requests;
  for (int i = 0; i < streams; ++i) {
    requests.push_back(WholeServer::request("/v1/completions", {{"prompt", prompt(i)},
                                                                {"max_tokens", kTokens},
                                                                {"temperature", 0},
                                                                {"ignore_eos", true},
                                                                {"stream", true}}));
  }
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  for (int i = 0; i < streams; ++i) clients[static_cast<size_t>(i)].send(requests[static_cast<size_t>(i)]);
  for (int left = streams; left > 0;) {
    ::poll(files.data(), files.size(), 1000);
    const double now = seconds_since(begin);
    for (size_t i = 0; i < files.size(); ++i) {
      if ((files[i].revents & POLLIN) == 0) continue;
      char buffer[65536];
      const auto size = ::recv(files[i].fd, buffer, sizeof buffer, 0);
      if (size <= 0) throw std::runtime_error("the server closed a stream");
      const std::string_view piece(buffer, static_cast<size_t>(size));
      if (times[i].first == 0) times[i].first = now;
      times[i].last = now;
      texts[i] =
          texts[i].substr(texts[i].size() - std::min<size_t>(texts[i].size(), 32)) + std::string(piece);
      if (texts[i].find("data: [DONE]") == std::string::npos) continue;
      files[i].fd = -1;
      --left;
    }
  }
  return mean(times, cpu_seconds() - cpu);
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * 4096;
}

void compare(const WholeServer& server, int streams) {
  double least = 1e9;
  std::vector<double> first, token, cpu, library_first, library_token, library_cpu;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Times library = from_library(server, streams), sockets = from_sockets(server, streams);
    library_first.push_back(library.first), library_token.push_back(library.per_token());
    library_cpu.push_back(library.cpu), cpu.push_back(sockets.cpu - library.cpu);
    first.push_back(sockets.first - library.first),
        least = std::min(least, sockets.first), token.push_back(sockets.per_token() - library.per_token());
  }
  // On a busy machine the least first token is nearest to what a quiet one shows.
  const double least_library = *std::min_element(library_first.begin(), library_first.end());
  fmt::print("| {} | {:.2f} | {:+.2f} | {:.2f} | {:+.2f} | {:.3f} | {:+.3f} | {:.3f} | {:+.3f} |\n", streams,
             median(library_first) * 1e3, median(first) * 1e3, least_library * 1e3,
             (least - least_library) * 1e3, median(library_token) * 1e3, median(token) * 1e3,
             median(library_cpu) * 1e3, median(cpu) * 1e3);
}

/// Streams whose first token is out and whose second one does not come.
void weigh() {
  constexpr int kStreams = 1000;
  SystemTimers timers;
  ScriptedReplies replies;
  replies.load_now.sequences = kStreams;
  ScriptedReplies::Script script{.tokens = scripted_model().tokenizer().encode("ab"), .pause_at = 1};
  replies.set(script);
  Service service({.log_requests = false}, timers);
  service.open(scripted_model(), replies);
  http::Options options;
  options.port = 0;
  http::Server server(options, service.handler(), {});
  server.start();
  {
    const auto open = [&](int count) {
      std::vector<http::Client> clients;
      for (int i = 0; i < count; ++i)
        clients.emplace_back(server.port())
            .send(WholeServer::request("/v1/chat/completions", chat({{"stream", true}})));
      for (http::Client& client : clients) client.read_raw(200);
      return clients;
    };
    auto first = open(10);  // what is taken once
    const size_t before = resident_bytes();
    auto clients = open(kStreams);
    fmt::print("\n{} open streams: {:.1f} MB, the client's part with it\n", kStreams,
               static_cast<double>(resident_bytes() - before) / 1e6);
  }
  service.stop();
  server.stop();
}

}  // namespace
}  // namespace slip::server::api

int main() {
  using namespace slip::server::api;
  {
    WholeServerOptions options{.sequences = 32, .draft = slip::session::Drafting::kNone};
    const WholeServer server(options);
    fmt::print(
        "| streams | library: first ms | over HTTP | least | over HTTP | library: ms a token | over HTTP | "
        "library: "
        "processor ms a token | over HTTP |\n|---|---|---|---|---|---|---|---|---|\n");
    compare(server, 1);
    compare(server, 32);
  }
  weigh();
}
