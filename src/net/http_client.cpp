#include "net/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace slip::net {
namespace {

constexpr size_t kLongestHead = 256 * 1024;
// Fewer system calls per byte than with libcurl's 16 KiB.
constexpr long kReceiveBuffer = 256 * 1024;
constexpr auto kLongestNap = std::chrono::milliseconds(100);
constexpr int kProxyAuthentication = 407;

void start_libcurl() {
  static const CURLcode result = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (result != CURLE_OK) {
    fail(ErrorKind::kRuntime, "libcurl cannot be started ({})", curl_easy_strerror(result));
  }
}

/// What people who run behind a certificate authority of their own set, as other tools read it.
std::string authorities_from_environment() {
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "";
}

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;
using List = std::unique_ptr<curl_slist, FreeList>;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Which status a line such as "HTTP/1.1 206 Partial Content" names; 0 = none.
int status_of(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return 0;
  return std::atoi(std::string(line.substr(space + 1, 3)).c_str());
}

Outcome outcome_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return Outcome::kNoHost;
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT: return Outcome::kNoConnection;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR: return Outcome::kBadCertificate;
    case CURLE_SSL_CACERT_BADFILE: return Outcome::kNoAuthorities;
    case CURLE_PROXY: return Outcome::kProxy;
    default: return Outcome::kBroken;
  }
}

}  // namespace

const std::string* Reply::find(std::string_view name) const {
  for (const Header& header : headers) {
    if (header.name == name) return &header.value;
  }
  return nullptr;
}

class HttpClient::Impl {
 public:
  explicit Impl(ClientOptions given) : options(std::move(given)) {
    start_libcurl();
    multi = curl_multi_init();
    if (multi == nullptr) fail(ErrorKind::kOutOfMemory, "libcurl cannot be started (out of memory)");
    // A connection for each transfer: parallel streams are what makes one download fast.
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    if (options.authorities.empty()) options.authorities = authorities_from_environment();
  }
  ~Impl() {
    for (auto& [id, transfer] : transfers) curl_multi_remove_handle(multi, transfer->easy.get());
    transfers.clear();
    curl_multi_cleanup(multi);
  }

  struct Transfer {
    Impl* client = nullptr;
    Id id = 0;
    Receiver* receiver = nullptr;
    Easy easy;
    List headers;
    Pace pace;
    Reply reply;
    size_t head_bytes = 0;
    bool head_done = false, stopped = false, paused = false, forbidden = false;
    Time last_byte, window_start;
    uint64_t window_bytes = 0;
    char error[CURL_ERROR_SIZE] = {};

    void restart_watch(Time now) {
      last_byte = window_start = now;
      window_bytes = 0;
    }
    bool take_head_line(std::string_view line);
    size_t take_body(std::span<const std::byte> bytes);
  };

  /// Exceptions must not pass through libcurl: the first one waits here until poll() or resume() ends.
  template <typename F, typename R>
  R guarded(F&& work, R otherwise) {
    try {
      return work();
    } catch (...) {
      if (!fault) fault = std::current_exception();
      return otherwise;
    }
  }
  void rethrow() {
    if (fault) std::rethrow_exception(std::exchange(fault, nullptr));
  }

  void configure(Transfer& transfer, const Request& request);
  End end_of(const Transfer& transfer, CURLcode code) const;
  void finish(Id id, End end);
  void finish_messages();
  void finish_stalled();

  ClientOptions options;
  CURLM* multi = nullptr;
  std::map<Id, std::unique_ptr<Transfer>> transfers;
  Id next_id = 1;
  std::exception_ptr fault;
};

bool HttpClient::Impl::Transfer::take_head_line(std::string_view line) {
  if (head_done) return true;  // a trailer behind a chunked body
  head_bytes += line.size();
  if (head_bytes > kLongestHead) {
    std::snprintf(error, sizeof error, "the head of the reply is longer than %zu bytes", kLongestHead);
    return false;
  }
  if (line.starts_with("HTTP/")) {
    reply = {};
    reply.status = status_of(line);
  } else if (trimmed(line).empty()) {
    if (reply.status < 200) return true;  // "100 Continue": the real head follows
    head_done = true;
    stopped = !client->guarded([&] { return receiver->on_head(reply); }, false);
    return !stopped;
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    reply.headers.push_back(
        {lower(trimmed(line.substr(0, colon))), std::string(trimmed(line.substr(colon + 1)))});
  }
  return true;
}

size_t HttpClient::Impl::Transfer::take_body(std::span<const std::byte> bytes) {
  const Flow flow = client->guarded([&] { return receiver->on_body(bytes); }, Flow::kStop);
  if (flow == Flow::kPause) {
    paused = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  stopped = flow == Flow::kStop;
  if (stopped) return 0;
  last_byte = client->options.clock->now();
  window_bytes += bytes.size();
  return bytes.size();
}

void HttpClient::Impl::configure(Transfer& transfer, const Request& request) {
  CURL* easy = transfer.easy.get();
  curl_slist* list = nullptr;
  for (const Header& header : request.headers) {
    list = curl_slist_append(list, fmt::format("{}: {}", header.name, header.value).c_str());
  }
  transfer.headers.reset(list);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
  // A proxy is somebody else: what is meant for the server does not go to it.
  curl_easy_setopt(easy, CURLOPT_HEADEROPT, CURLHEADER_SEPARATE);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, options.agent.c_str());
  // Sizes and ranges mean the bytes of the file. A server that compresses all the same is still understood.
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "identity");
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBuffer);
  curl_easy_setopt(
      easy, CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(
          std::chrono::duration_cast<std::chrono::milliseconds>(options.connect_timeout).count()));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.error);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
  if (options.proxy) curl_easy_setopt(easy, CURLOPT_PROXY, options.proxy->c_str());
  if (!options.authorities.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options.authorities.c_str());
  if (request.method == Method::kHead) curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  if (request.method == Method::kPost) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request.body.c_str());
  }
  if (request.fresh_connection) curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  if (request.range) {
    SLIP_CHECK(request.range->begin < request.range->end);
    curl_easy_setopt(easy, CURLOPT_RANGE,
                     fmt::format("{}-{}", request.range->begin, request.range->end - 1).c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(
      easy, CURLOPT_HEADERFUNCTION, +[](char* data, size_t, size_t size, void* context) -> size_t {
        return static_cast<Transfer*>(context)->take_head_line({data, size}) ? size : 0;
      });
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(
      easy, CURLOPT_WRITEFUNCTION, +[](char* data, size_t, size_t size, void* context) -> size_t {
        return static_cast<Transfer*>(context)->take_body(std::as_bytes(std::span(data, size)));
      });
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &transfer);
  curl_easy_setopt(
      easy, CURLOPT_OPENSOCKETFUNCTION,
      +[](void* context, curlsocktype, curl_sockaddr* address) -> curl_socket_t {
        auto& self = *static_cast<Transfer*>(context);
        const auto& allow = self.client->options.allow_address;
        if (allow && !allow(address->addr, static_cast<socklen_t>(address->addrlen))) {
          self.forbidden = true;
          return CURL_SOCKET_BAD;
        }
        return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
      });
}

End HttpClient::Impl::end_of(const Transfer& transfer, CURLcode code) const {
  if (code == CURLE_OK) {
    if (!transfer.head_done) return {Outcome::kBroken, "the server sent no reply"};
    if (transfer.reply.status == kProxyAuthentication) {
      return {Outcome::kProxy, "the proxy wants a user and a password (407)"};
    }
    return {};
  }
  if (transfer.stopped) return {Outcome::kStopped, "stopped"};
  if (transfer.forbidden) return {Outcome::kForbidden, "connections to this address are not allowed"};
  long connect_status = 0;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_HTTP_CONNECTCODE, &connect_status);
  if (connect_status == kProxyAuthentication) {
    return {Outcome::kProxy, "the proxy wants a user and a password (407)"};
  }
  if (connect_status >= 300) return {Outcome::kProxy, fmt::format("the proxy answers {}", connect_status)};
  const char* words = transfer.error[0] != '\0' ? transfer.error : curl_easy_strerror(code);
  if (code == CURLE_COULDNT_RESOLVE_PROXY) return {Outcome::kProxy, words};
  return {outcome_of(code), words};
}

void HttpClient::Impl::finish(Id id, End end) {
  const auto at = transfers.find(id);
  if (at == transfers.end()) return;
  const std::unique_ptr<Transfer> transfer = std::move(at->second);
  transfers.erase(at);
  curl_multi_remove_handle(multi, transfer->easy.get());
  transfer->receiver->on_end(end);
}

void HttpClient::Impl::finish_messages() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    finish(transfer->id, end_of(*transfer, message->data.result));
  }
}

void HttpClient::Impl::finish_stalled() {
  const Time now = options.clock->now();
  std::vector<std::pair<Id, End>> ended;
  for (auto& [id, transfer] : transfers) {
    if (transfer->paused) continue;
    const auto seconds = [](Duration d) {
      return std::chrono::duration_cast<std::chrono::seconds>(d).count();
    };
    if (now - transfer->last_byte >= transfer->pace.silence) {
      ended.push_back(
          {id, {Outcome::kSilent, fmt::format("nothing came for {} s", seconds(transfer->pace.silence))}});
    } else if (const Duration passed = now - transfer->window_start; passed >= transfer->pace.window) {
      const double wanted =
          static_cast<double>(transfer->pace.floor) * std::chrono::duration<double>(passed).count();
      if (transfer->head_done && static_cast<double>(transfer->window_bytes) < wanted) {
        ended.push_back({id,
                         {Outcome::kTooSlow, fmt::format("less than {} bytes a second came for {} s",
                                                         transfer->pace.floor, seconds(passed))}});
      }
      transfer->window_start = now;
      transfer->window_bytes = 0;
    }
  }
  for (auto& [id, end] : ended) finish(id, std::move(end));
}

HttpClient::HttpClient(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;

HttpClient::Id HttpClient::start(const Request& request, Receiver& receiver) {
  auto transfer = std::make_unique<Impl::Transfer>();
  transfer->client = impl_.get();
  transfer->id = impl_->next_id++;
  transfer->receiver = &receiver;
  transfer->easy.reset(curl_easy_init());
  transfer->pace = request.pace;
  transfer->restart_watch(impl_->options.clock->now());
  if (transfer->easy == nullptr) fail(ErrorKind::kOutOfMemory, "no memory for another connection");
  impl_->configure(*transfer, request);
  const Id id = transfer->id;
  SLIP_CHECK(curl_multi_add_handle(impl_->multi, transfer->easy.get()) == CURLM_OK);
  impl_->transfers.emplace(id, std::move(transfer));
  return id;
}

void HttpClient::stop(Id id) {
  const auto at = impl_->transfers.find(id);
  if (at == impl_->transfers.end()) return;
  curl_multi_remove_handle(impl_->multi, at->second->easy.get());
  impl_->transfers.erase(at);
}

void HttpClient::resume(Id id) {
  const auto at = impl_->transfers.find(id);
  if (at == impl_->transfers.end() || !at->second->paused) return;
  at->second->paused = false;
  at->second->restart_watch(impl_->options.clock->now());
  curl_easy_pause(at->second->easy.get(), CURLPAUSE_CONT);
  impl_->rethrow();
}

int HttpClient::active() const {
  return static_cast<int>(impl_->transfers.size());
}

Clock& HttpClient::clock() const {
  return *impl_->options.clock;
}

void HttpClient::poll(std::chrono::milliseconds longest) {
  int running = 0;
  curl_multi_perform(impl_->multi, &running);
  const size_t before = impl_->transfers.size();
  impl_->finish_messages();
  impl_->finish_stalled();
  impl_->rethrow();
  if (impl_->transfers.size() != before) return;
  curl_multi_poll(impl_->multi, nullptr, 0, static_cast<int>(std::min(longest, kLongestNap).count()),
                  nullptr);
  curl_multi_perform(impl_->multi, &running);
  impl_->finish_messages();
  impl_->rethrow();
}

void HttpClient::wake() {
  curl_multi_wakeup(impl_->multi);
}

namespace {

/// Collects a reply of bounded length.
class Collector : public Receiver {
 public:
  Collector(Fetched& fetched, size_t longest) : fetched_(fetched), longest_(longest) {}
  bool done = false;

  bool on_head(const Reply& reply) override {
    fetched_.reply = reply;
    return true;
  }
  Flow on_body(std::span<const std::byte> bytes) override {
    const size_t room = longest_ - fetched_.body.size();
    fetched_.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
    fetched_.too_long = bytes.size() > room;
    return fetched_.too_long ? Flow::kStop : Flow::kMore;
  }
  void on_end(const End& end) override {
    fetched_.end = end;
    done = true;
  }

 private:
  Fetched& fetched_;
  const size_t longest_;
};

}  // namespace

Fetched fetch(HttpClient& client, const Request& request, size_t longest_body, const Cancel* cancel) {
  Fetched fetched;
  Collector collector(fetched, longest_body);
  const HttpClient::Id id = client.start(request, collector);
  while (!collector.done) {
    if (cancel != nullptr && cancel->requested()) {
      client.stop(id);
      fetched.end = {Outcome::kStopped, "interrupted"};
      break;
    }
    client.poll(kLongestNap);
  }
  return fetched;
}

}  // namespace slip::net
