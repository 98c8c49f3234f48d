// The hub's API: which commit a revision is, what its files are, where a file's bytes lie. Every call follows
// redirects by hand, since metadata stands on the first reply and the token may go no further than the hub;
// retries what may pass by itself; and turns a refusal into a sentence that says what to do.
//
// Invariants: the token is sent to the hub's own origins only, and is in no message. A resolve never carries
// a Range: the hub would sign the address for those bytes alone. Blocks the calling thread, but other
// transfers of the client go on meanwhile.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/environment.h"
#include "hub/listing.h"
#include "net/http_client.h"
#include "net/url.h"

namespace slip::hub {

/// Why nothing moves just now, for people: "the hub limits requests; waiting 56 s".
using Notice = std::function<void(const std::string& text)>;

enum class Patience {
  kOnce,   // something else will do
  kUsual,  // retries what may pass: 1, 2, 4, 8 and 8 s apart
};

struct ApiOptions {
  net::HttpClient& client;
  const Environment& environment;
  const net::Cancel* cancel = nullptr;
  Notice notice = {};
};

/// What a request is about, for messages.
struct Subject {
  std::string repository;
  std::string revision;
  std::string path = "";
};

class Api {
 public:
  explicit Api(ApiOptions options) : options_(std::move(options)) {}

  RepositoryInfo info(const std::string& repository, const std::string& revision,
                      Patience patience = Patience::kUsual);
  std::vector<RemoteFile> tree(const std::string& repository, const std::string& commit);
  /// Where the bytes of a file can be asked for, in any ranges. The address may expire.
  net::Url locate(const std::string& repository, const std::string& commit, const RemoteFile& file);
  /// A small file whole, its hash checked.
  std::string read_file(const std::string& repository, const std::string& commit, const RemoteFile& file);
  /// Bytes [begin, end) of a large file from where locate() found it.
  std::string read_range(const net::Url& address, const Subject& subject, net::ByteRange range,
                         uint64_t size);

  /// Where a redirect leads. Throws when that is no address of http or https, or gives up encryption.
  net::Url redirect_of(const net::Reply& reply, const net::Url& url) const;
  /// Headers for a request to this address: the token only if it is the hub.
  std::vector<net::Header> headers_for(const net::Url& url) const;
  /// Waits on the client's clock. Throws when cancelled.
  void wait_until(net::Time due);
  void check_cancelled() const;
  net::HttpClient& client() const { return options_.client; }
  const Environment& environment() const { return options_.environment; }

  /// Throws the sentence for a reply that refuses.
  [[noreturn]] void fail_reply(const net::Reply& reply, const std::string& body, const net::Url& url,
                               const Subject& subject) const;
  /// Throws the sentence for a transfer that found no server, or lost it.
  [[noreturn]] void fail_end(const net::End& end, const net::Url& url) const;
  void notice(const std::string& text) const;

 private:
  struct Answer {
    net::Reply reply;
    std::string body;
    net::Url url;
    net::End end;
  };
  Answer request(net::Method method, const net::Url& url, size_t longest_body, Patience patience,
                 std::optional<net::ByteRange> range = {});
  Answer request_following(net::Method method, net::Url url, size_t longest_body, Patience patience);
  net::Url url_of(const std::string& path_and_query) const;
  bool is_hub(const net::Url& url) const;

  ApiOptions options_;
};

inline constexpr int kMostRedirects = 10;
bool is_redirect(int status);
/// Statuses that may be gone the next time.
bool may_pass(int status);
/// How long before the next try, counted from 0; nothing when it was tried often enough.
std::optional<std::chrono::seconds> pause_before(int tries);

}  // namespace slip::hub
