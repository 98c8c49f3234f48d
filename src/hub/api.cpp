#include "hub/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "hub/digest.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;

constexpr size_t kLongestAnswer = size_t{16} << 20;
constexpr size_t kLongestSmallFile = size_t{64} << 20;
constexpr size_t kLongestErrorBody = size_t{64} << 10;
constexpr int kMostPages = 200;
constexpr int kMostRateWaits = 20;
constexpr int kPauses[] = {1, 2, 4, 8, 8};
constexpr auto kNap = std::chrono::milliseconds(50);

bool may_pass(net::Outcome outcome) {
  return outcome == net::Outcome::kNoConnection || outcome == net::Outcome::kBroken ||
         outcome == net::Outcome::kSilent || outcome == net::Outcome::kTooSlow;
}

std::string value_of(const net::Reply& reply, std::string_view name) {
  const std::string* value = reply.find(name);
  return value == nullptr ? "" : *value;
}

/// What a refusing server says itself: a header, or the JSON it sent.
std::string words_of(const net::Reply& reply, const std::string& body) {
  std::string words = value_of(reply, "x-error-message");
  if (words.empty() && body.starts_with('{')) {
    try {
      const nlohmann::json document = checkpoint::parse_json(body, "answer");
      if (const auto at = document.find("error"); at != document.end() && at->is_string()) {
        words = at->get<std::string>();
      }
    } catch (const Error&) {
      // no JSON after all: the status must do
    }
  }
  if (words.empty() && !body.empty() && body.find('<') == std::string::npos) words = body;
  return fit_for_message(words);
}

}  // namespace

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool may_pass(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::optional<std::chrono::seconds> pause_before(int tries) {
  if (tries >= static_cast<int>(std::size(kPauses))) return std::nullopt;
  return std::chrono::seconds(kPauses[tries]);
}

void Api::notice(const std::string& text) const {
  if (options_.notice) options_.notice(scrub(text, options_.environment.token));
}

void Api::check_cancelled() const {
  if (options_.cancel != nullptr && options_.cancel->requested()) {
    fail(ErrorKind::kRuntime, "the download was interrupted; the same command goes on with it");
  }
}

void Api::wait_until(net::Time due) {
  net::Clock& clock = client().clock();
  while (clock.now() < due) {
    check_cancelled();
    if (client().active() == 0 && clock.jump(due)) continue;
    client().poll(kNap);
  }
}

bool Api::is_hub(const net::Url& url) const {
  const auto own = net::parse_url(options_.environment.endpoint);
  if (own && url.origin() == own->origin()) return true;
  const auto& others = options_.environment.hub_origins;
  return std::find(others.begin(), others.end(), url.origin()) != others.end();
}

std::vector<net::Header> Api::headers_for(const net::Url& url) const {
  std::vector<net::Header> headers;
  if (!options_.environment.token.empty() && is_hub(url)) {
    headers.push_back({"Authorization", "Bearer " + options_.environment.token});
  }
  return headers;
}

net::Url Api::url_of(const std::string& path_and_query) const {
  auto url = net::parse_url(options_.environment.endpoint + path_and_query);
  if (!url) fail_usage("HF_ENDPOINT is no URL; it must begin with https:// or http://");
  return *url;
}

void Api::fail_end(const net::End& end, const net::Url& url) const {
  const std::string& words = end.message;
  using net::Outcome;
  switch (end.outcome) {
    case Outcome::kStopped: check_cancelled(); break;
    case Outcome::kNoHost:
    case Outcome::kNoConnection:
      fail(ErrorKind::kRuntime, "{} cannot be reached ({}); check the network, or HF_ENDPOINT if it is set",
           url.host, scrub(words, options_.environment.token));
    case Outcome::kProxy:
      fail(ErrorKind::kRuntime, "{} cannot be reached: {}; check http_proxy and https_proxy", url.host,
           words);
    case Outcome::kNoAuthorities:
      fail(ErrorKind::kRuntime,
           "this machine has no certificate store to check {} with; install the package ca-certificates",
           url.host);
    case Outcome::kBadCertificate:
      fail(ErrorKind::kRuntime, "the certificate of {} is not valid ({}); nothing was sent to it", url.host,
           words);
    default: break;
  }
  fail(ErrorKind::kRuntime, "the connection to {} was lost ({})", url.host, words);
}

void Api::fail_reply(const net::Reply& reply, const std::string& body, const net::Url& url,
                     const Subject& subject) const {
  const std::string code = value_of(reply, "x-error-code");
  const std::string& repository = subject.repository;
  const std::string page = options_.environment.endpoint + "/" + repository;
  const bool has_token = !options_.environment.token.empty();
  std::string details = words_of(reply, body);
  if (const std::string id = value_of(reply, "x-request-id"); !id.empty()) {
    details += fmt::format("{}request {}", details.empty() ? "" : ", ", fit_for_message(id));
  }
  details = scrub(details.empty() ? fmt::format("status {}", reply.status)
                                  : fmt::format("status {}: {}", reply.status, details),
                  options_.environment.token);
  if (code == "GatedRepo" && reply.status == 401) {
    fail_file("{} is gated: accept its terms at {} and set HF_TOKEN to a token of your account ({})",
              repository, page, details);
  }
  if (code == "GatedRepo") {
    fail_file("{} is gated, and your account has no access yet: open {} ({})", repository, page, details);
  }
  if (code == "RevisionNotFound") {
    fail_file("{} has no revision {}; see {}/tree/main for its branches ({})", repository,
              in_quotes(subject.revision), page, details);
  }
  if (code == "EntryNotFound") {
    fail_file("{} has no file {} in the revision {} ({})", repository, in_quotes(subject.path),
              subject.revision, details);
  }
  if (reply.status == 401) {
    fail_file("no model {} on the hub: it does not exist, or is private{}; check the name{} ({})", repository,
              has_token ? ", or the token is not valid" : "",
              has_token ? " and HF_TOKEN" : ", or set HF_TOKEN", details);
  }
  if (reply.status == 404) {
    fail_file("no model {} on the hub: the name is mistyped, or you have no access to it ({})", repository,
              details);
  }
  if (reply.status == 403) {
    fail_file("the hub refuses {}: the repository is disabled, or the token does not allow it ({})",
              repository, details);
  }
  fail(ErrorKind::kRuntime, "{} answers with an error for {} ({})", url.shown(), repository, details);
}

Api::Answer Api::request(net::Method method, const net::Url& url, size_t longest_body, Patience patience,
                         std::optional<net::ByteRange> range) {
  int tries = 0, rate_waits = 0;
  for (;;) {
    check_cancelled();
    net::Request request{.method = method, .url = url.text, .headers = headers_for(url), .range = range};
    request.pace.silence = options_.environment.metadata_silence;
    request.fresh_connection = tries > 0;
    net::Fetched got = net::fetch(client(), request, longest_body, options_.cancel);
    if (got.too_long) {
      fail(ErrorKind::kRuntime, "{}: sends more than {} bytes where a small answer belongs; it is refused",
           url.shown(), longest_body);
    }
    const bool ended = got.end.outcome == net::Outcome::kDone;
    const bool passing = ended ? hub::may_pass(got.reply.status) : may_pass(got.end.outcome);
    const auto wait = ended && got.reply.status == 429 ? wanted_wait(got.reply) : std::nullopt;
    const auto pause = wait ? wait : pause_before(tries);
    const bool again = passing && patience == Patience::kUsual && pause && rate_waits < kMostRateWaits;
    if (!again) {
      if (!ended) fail_end(got.end, url);
      return {std::move(got.reply), std::move(got.body), url, got.end};
    }
    wait ? ++rate_waits : ++tries;
    if (wait) {
      notice(fmt::format("the hub limits how often it is asked; waiting {} s", pause->count()));
    } else {
      const std::string why = ended ? fmt::format("status {}", got.reply.status) : got.end.message;
      notice(
          fmt::format("{} does not answer well ({}); trying again in {} s", url.host, why, pause->count()));
    }
    wait_until(client().clock().now() + *pause);
  }
}

net::Url Api::redirect_of(const net::Reply& reply, const net::Url& url) const {
  const std::string* location = reply.find("location");
  const auto next = location == nullptr ? std::nullopt : net::join_url(url, *location);
  if (!next) {
    fail(ErrorKind::kRuntime, "{}: redirects to something that is no address of http or https", url.shown());
  }
  // What came encrypted so far would go on for everybody to read and to change.
  if (url.scheme == "https" && next->scheme == "http") {
    fail(ErrorKind::kRuntime, "{}: redirects from https to http ({}), which is not safe; it is refused",
         url.shown(), next->host);
  }
  return *next;
}

Api::Answer Api::request_following(net::Method method, net::Url url, size_t longest_body, Patience patience) {
  const net::Url first = url;
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    Answer answer = request(method, url, longest_body, patience);
    if (!is_redirect(answer.reply.status)) return answer;
    // Metadata is on this reply; what follows is where the bytes are.
    if (answer.reply.find("x-linked-etag") != nullptr && method == net::Method::kHead) return answer;
    const net::Url next = redirect_of(answer.reply, answer.url);
    if (method == net::Method::kHead && !is_hub(next)) return answer;
    url = next;
  }
  fail(ErrorKind::kRuntime, "{}: redirects more than {} times", first.shown(), kMostRedirects);
}

RepositoryInfo Api::info(const std::string& repository, const std::string& revision, Patience patience) {
  const net::Url url = url_of(
      fmt::format("/api/models/{}/revision/{}", net::encode_path(repository), net::encode_segment(revision)));
  const Answer answer = request_following(net::Method::kGet, url, kLongestAnswer, patience);
  if (answer.reply.status != 200) fail_reply(answer.reply, answer.body, answer.url, {repository, revision});
  return parse_info(answer.body, answer.url.shown());
}

std::vector<RemoteFile> Api::tree(const std::string& repository, const std::string& commit) {
  net::Url url =
      url_of(fmt::format("/api/models/{}/tree/{}?recursive=true", net::encode_path(repository), commit));
  const std::string where = url.shown();
  std::vector<RemoteFile> files;
  for (int page = 0; page < kMostPages; ++page) {
    const Answer answer = request_following(net::Method::kGet, url, kLongestAnswer, Patience::kUsual);
    if (answer.reply.status != 200) fail_reply(answer.reply, answer.body, answer.url, {repository, commit});
    parse_tree_page(answer.body, where, files);
    const auto next = next_page(answer.reply);
    if (!next) {
      check_tree(files, where);
      return files;
    }
    const auto joined = net::join_url(answer.url, *next);
    if (!joined || !is_hub(*joined)) {
      fail(ErrorKind::kRuntime, "{}: continues its list of files on another host; it is refused", where);
    }
    url = *joined;
  }
  fail(ErrorKind::kRuntime, "{}: its list of files does not end after {} pages", where, kMostPages);
}

net::Url Api::locate(const std::string& repository, const std::string& commit, const RemoteFile& file) {
  const net::Url url = url_of(
      fmt::format("/{}/resolve/{}/{}", net::encode_path(repository), commit, net::encode_path(file.path)));
  const Answer answer = request_following(net::Method::kHead, url, kLongestErrorBody, Patience::kUsual);
  const net::Reply& reply = answer.reply;
  if (reply.status != 200 && !is_redirect(reply.status)) {
    // A HEAD has no body, so the reason has to be asked for.
    const Answer reason = request(net::Method::kGet, answer.url, kLongestErrorBody, Patience::kOnce);
    if (reason.reply.status == reply.status)
      fail_reply(reason.reply, reason.body, url, {repository, commit, file.path});
    fail_reply(reply, "", url, {repository, commit, file.path});
  }
  std::string etag = bare_etag(value_of(reply, "x-linked-etag"));
  if (etag.empty() && !is_redirect(reply.status)) etag = bare_etag(value_of(reply, "etag"));
  const auto linked_size = parse_number(value_of(reply, "x-linked-size"));
  // A mirror's own kind of ETag says nothing; a hash that differs does.
  const bool differs = etag.size() == file.etag.size() && etag != file.etag;
  if (differs || (linked_size && *linked_size != file.size)) {
    fail(ErrorKind::kRuntime, "{}: is another file than the hub's list of {} says; try again later",
         url.shown(), repository);
  }
  return is_redirect(reply.status) ? redirect_of(reply, answer.url) : answer.url;
}

std::string Api::read_file(const std::string& repository, const std::string& commit, const RemoteFile& file) {
  const Subject subject{repository, commit, file.path};
  if (file.size > kLongestSmallFile) {
    fail(ErrorKind::kRuntime, "{}: {} is {} bytes long, too many for such a file", repository,
         in_quotes(file.path), file.size);
  }
  const net::Url url = url_of(
      fmt::format("/{}/resolve/{}/{}", net::encode_path(repository), commit, net::encode_path(file.path)));
  const Answer answer =
      request_following(net::Method::kGet, url, file.size + kLongestErrorBody, Patience::kUsual);
  if (answer.reply.status != 200) fail_reply(answer.reply, answer.body, answer.url, subject);
  Digest digest(file.large ? Digest::Kind::kSha256 : Digest::Kind::kGitBlob, file.size);
  digest.add(std::as_bytes(std::span(answer.body)));
  if (answer.body.size() != file.size || digest.finish() != file.etag) {
    fail(ErrorKind::kRuntime,
         "{}: {} bytes came that are not this file ({} bytes, type {}); is there a login page on this "
         "network?",
         url.shown(), answer.body.size(), file.size, fit_for_message(value_of(answer.reply, "content-type")));
  }
  return answer.body;
}

std::string Api::read_range(const net::Url& address, const Subject& subject, net::ByteRange range,
                            uint64_t size) {
  const size_t wanted = range.end - range.begin;
  const Answer answer =
      request(net::Method::kGet, address, wanted + kLongestErrorBody, Patience::kUsual, range);
  const auto got = parse_content_range(value_of(answer.reply, "content-range"));
  if (answer.reply.status >= 400) fail_reply(answer.reply, answer.body, address, subject);
  if (answer.reply.status != 206 || !got || got->begin != range.begin || got->end != range.end ||
      got->total != size || answer.body.size() != wanted) {
    fail(ErrorKind::kRuntime, "{}: did not send the part of {} that was asked for", address.shown(),
         in_quotes(subject.path));
  }
  return answer.body;
}

}  // namespace slip::hub
