#include "session/picture_source.h"

#include <cstdlib>
#include <optional>

#include "media/refused.h"
#include "media/url.h"
#include "media/web_address.h"
#include "net/http_client.h"
#include "net/url.h"

namespace slip::session {
namespace {

using media::Fault;
using Clock = std::chrono::steady_clock;

constexpr int kMostRedirects = 3;
constexpr std::chrono::seconds kConnectLimit{5};

/// Keeps a body up to a limit.
class Body final : public net::Receiver {
 public:
  explicit Body(size_t most) : most_(most) {}

  bool on_head(const net::Reply& reply) override {
    reply_ = reply;
    // An announced length spares reading what would be thrown away.
    const std::string* length = reply.find("content-length");
    too_long_ =
        reply.status == 200 && length != nullptr && std::strtoull(length->c_str(), nullptr, 10) > most_;
    return reply.status == 200 && !too_long_;
  }
  net::Flow on_body(std::span<const std::byte> bytes) override {
    too_long_ = bytes.size() > most_ - bytes_.size();
    if (too_long_) return net::Flow::kStop;
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return net::Flow::kMore;
  }
  void on_end(const net::End& end) override { end_ = end; }

  bool ended() const { return end_.has_value(); }
  const net::End& end() const { return *end_; }
  const net::Reply& reply() const { return reply_; }
  bool too_long() const { return too_long_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  const size_t most_;
  net::Reply reply_;
  std::vector<std::byte> bytes_;
  bool too_long_ = false;
  std::optional<net::End> end_;
};

class WebFetch {
 public:
  WebFetch(const std::string& name, const PictureSources& sources, std::stop_token stop)
      : name_(name),
        sources_(sources),
        stop_(std::move(stop)),
        deadline_(Clock::now() + sources.fetch_limit) {}

  std::vector<std::byte> run(std::string_view text) {
    std::optional<net::Url> url = net::parse_url(text);
    for (int hops = 0; hops <= kMostRedirects; ++hops) {
      if (!url) refuse(Fault::kBadUrl);
      check(*url);
      Body body(sources_.limits.bytes);
      get(*url, body);
      if (body.too_long()) refuse(Fault::kTooManyBytes);
      const int status = body.reply().status;
      const std::string* location = body.reply().find("location");
      if (status >= 300 && status < 400 && location != nullptr) {
        url = net::join_url(*url, *location);
        continue;
      }
      if (body.end().outcome == net::Outcome::kForbidden) refuse(Fault::kUrlNotAllowed);
      if (status != 200 || body.end().outcome != net::Outcome::kDone) refuse(Fault::kNotFetched);
      return body.take();
    }
    refuse(Fault::kNotFetched);
  }

 private:
  [[noreturn]] void refuse(Fault fault) const {
    throw media::Refused({.fault = fault}, name_, sources_.limits);
  }

  void check(const net::Url& url) const {
    const std::string_view authority =
        std::string_view(url.text).substr(0, url.text.find('/', url.scheme.size() + 3));
    const bool secret = authority.find('@') != std::string_view::npos;
    const bool usual_port = url.port == "80" || url.port == "443" || sources_.any_port;
    if (secret || !usual_port || !media::is_allowed_host(url.host, sources_.domains))
      refuse(Fault::kUrlNotAllowed);
  }

  // A client of its own for every hop: no connection, cookie or name that another request left is used.
  void get(const net::Url& url, Body& body) {
    net::ClientOptions options{.connect_timeout = kConnectLimit, .proxy = ""};
    options.allow_address =
        sources_.allow_address ? sources_.allow_address : [](const sockaddr& address, socklen_t size) {
          return media::is_public(&address, size);
        };
    net::HttpClient client(options);
    const net::HttpClient::Id id = client.start(
        {.url = url.text, .headers = {{"Accept", "image/*"}}, .pace = {.silence = kConnectLimit}}, body);
    while (!body.ended()) {
      client.poll(std::chrono::milliseconds(50));
      if (body.ended()) return;
      if (stop_.stop_requested() || Clock::now() >= deadline_) {
        client.stop(id);
        refuse(stop_.stop_requested() ? Fault::kCancelled : Fault::kNotFetched);
      }
    }
  }

  const std::string& name_;
  const PictureSources& sources_;
  std::stop_token stop_;
  const Clock::time_point deadline_;
};

}  // namespace

std::vector<std::byte> read_picture_url(std::string_view url, const std::string& name,
                                        const PictureSources& sources, std::stop_token stop) {
  switch (media::url_kind(url)) {
    case media::UrlKind::kData: return media::parse_data_url(url, name, sources.limits).bytes;
    case media::UrlKind::kFile: try { return media::read_file_url(url, sources.folder, sources.limits);
      } catch (const media::Refused& refused) {
        throw media::Refused(refused.refusal(), name, sources.limits);  // the path is nobody's business
      }
    case media::UrlKind::kWeb:
      if (sources.web) return WebFetch(name, sources, std::move(stop)).run(url);
      throw media::Refused({.fault = Fault::kUrlNotAllowed}, name, sources.limits);
    case media::UrlKind::kOther: break;
  }
  throw media::Refused({.fault = Fault::kBadUrl}, name, sources.limits);
}

}  // namespace slip::session
