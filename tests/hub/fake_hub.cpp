#include "hub/fake_hub.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hub/fake_tls.h"

namespace slip::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Hexadecimal; frees the context.
std::string finished(EVP_MD_CTX* context) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  EVP_DigestFinal_ex(context, bytes, &count);
  EVP_MD_CTX_free(context);
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

std::string hex_digest(const EVP_MD* kind, const std::vector<std::string_view>& parts) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, kind, nullptr);
  for (const std::string_view part : parts) EVP_DigestUpdate(context, part.data(), part.size());
  return finished(context);
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string decoded(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      result += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

bool cut_front(std::string& text, const std::string& front) {
  if (!text.starts_with(front)) return false;
  text.erase(0, front.size());
  return true;
}

std::string parameter(const std::string& query, const std::string& name) {
  const size_t at = ("&" + query).find("&" + name + "=");
  if (at == std::string::npos) return "";
  const std::string rest = query.substr(at + name.size() + 1);
  return rest.substr(0, rest.find('&'));
}

FakeReply refusal(int status, const std::string& code, const std::string& message) {
  FakeReply reply;
  reply.status = status;
  if (!code.empty()) reply.set("X-Error-Code", code);
  reply.set("X-Error-Message", message);
  reply.set("X-Request-Id", "Root=1-fake");
  reply.set("Content-Type", "application/json");
  reply.body = json{{"error", message}}.dump();
  return reply;
}

FakeReply json_reply(const json& value) {
  FakeReply reply;
  reply.set("Content-Type", "application/json; charset=utf-8");
  reply.body = value.dump();
  return reply;
}

/// Turns a reply with a file into one for the Range that was asked for.
void apply_range(const FakeRequest& request, FakeReply& reply) {
  const std::string range = request.header("range");
  reply.begin = 0;
  reply.end = reply.file->size;
  if (!range.starts_with("bytes=")) return;
  const size_t dash = range.find('-');
  const uint64_t begin = std::stoull(range.substr(6, dash - 6));
  const std::string last = range.substr(dash + 1);
  const uint64_t end =
      last.empty() ? reply.file->size : std::min<uint64_t>(std::stoull(last) + 1, reply.file->size);
  if (begin >= reply.file->size) {
    const uint64_t size = reply.file->size;
    reply.become(416, "");
    reply.set("Content-Range", fmt::format("bytes */{}", size));
    return;
  }
  reply.status = 206;
  reply.begin = begin;
  reply.end = end;
  reply.set("Content-Range", fmt::format("bytes {}-{}/{}", begin, end - 1, reply.file->size));
}

json entry_of(const std::string& path, const FakeFile& file) {
  json entry{{"type", "file"}, {"path", path}, {"size", file.size}, {"oid", file.etag}};
  if (file.large) {
    entry["oid"] = git_sha1_of("pointer of " + file.etag);
    entry["lfs"] = {{"oid", file.etag}, {"size", file.size}, {"pointerSize", 135}};
    entry["xetHash"] = file.etag;
  }
  return entry;
}

std::string commit_of(const FakeRepository& repository) {
  std::string all;
  for (const auto& [path, file] : repository.files) all += path + " " + file.etag + "\n";
  return git_sha1_of(all);
}

}  // namespace

std::string sha256_of(const std::string& bytes) {
  return hex_digest(EVP_sha256(), {bytes});
}

std::string git_sha1_of(const std::string& bytes) {
  const std::string head = fmt::format("blob {}", bytes.size());
  return hex_digest(EVP_sha1(), {std::string_view(head.c_str(), head.size() + 1), bytes});
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  std::vector<char> piece(size_t{1} << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    EVP_DigestUpdate(context, piece.data(), static_cast<size_t>(file.gcount()));
  return finished(context);
}

struct FakeHub::Connection {
  int fd = -1;
  TlsStream tls;
  std::string buffered;

  bool send(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t done = tls ? tls.write(data, size) : ::send(fd, data, size, MSG_NOSIGNAL);
      if (done <= 0) return false;
      data += done;
      size -= static_cast<size_t>(done);
    }
    return true;
  }
  bool receive() {
    char buffer[16384];
    const ssize_t got = tls ? tls.read(buffer, sizeof buffer) : ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    buffered.append(buffer, static_cast<size_t>(got));
    return true;
  }
};

struct FakeHub::Tls : TlsServer {};

FakeHub::FakeHub(Options options) : options_(options) {
  std::signal(SIGPIPE, SIG_IGN);  // sendfile() has no way to ask for an error instead
  if (options.tls) {
    tls_ = std::make_unique<Tls>();
    authority_ = tls_->authority();
    scheme_ = "https";
  }
  listen_on(0, options.port);
  listen_on(1, options.port == 0 ? 0 : options.port + 1);
  for (int i = 0; i < 2; ++i) acceptors_[i] = std::thread([this, i] { accept_loop(i); });
}

FakeHub::~FakeHub() {
  stop_ = true;
  for (const int fd : listeners_) ::shutdown(fd, SHUT_RDWR);
  for (std::thread& thread : acceptors_) thread.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int fd : listeners_) ::close(fd);
}

void FakeHub::cut_connections() {
  const std::lock_guard lock(mutex_);
  for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
}

void FakeHub::listen_on(int index, int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t length = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd, 64) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("the fake hub cannot listen");
    std::abort();
  }
  listeners_[index] = fd;
  ports_[index] = ntohs(address.sin_port);
}

void FakeHub::accept_loop(int index) {
  while (!stop_) {
    const int fd = ::accept4(listeners_[index], nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (stop_) return;
      continue;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const std::lock_guard lock(mutex_);
    if (stop_) {
      ::close(fd);
      return;
    }
    open_.push_back(fd);
    threads_.emplace_back([this, fd, index] { serve(fd, index == 1); });
  }
}

void FakeHub::serve(int fd, bool storage) {
  {
    Connection connection;
    connection.fd = fd;
    bool open = true;
    if (tls_) {
      connection.tls = tls_->accept(fd);
      open = static_cast<bool>(connection.tls);
    }
    while (open && !stop_) open = serve_one(connection, storage);
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

bool FakeHub::serve_one(Connection& connection, bool storage) {
  size_t end;
  while ((end = connection.buffered.find("\r\n\r\n")) == std::string::npos) {
    if (!connection.receive()) return false;
  }
  const std::string head = connection.buffered.substr(0, end);
  connection.buffered.erase(0, end + 4);
  FakeRequest request;
  request.storage = storage;
  const size_t line_end = head.find("\r\n");
  const std::string line = head.substr(0, line_end);
  const size_t first = line.find(' '), second = line.rfind(' ');
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, second - first - 1);
  const size_t question = request.target.find('?');
  request.path = decoded(request.target.substr(0, question));
  request.query = question == std::string::npos ? "" : request.target.substr(question + 1);
  for (size_t at = line_end; at != std::string::npos && at < head.size();) {
    const size_t begin = at + 2, next = head.find("\r\n", begin);
    const std::string header = head.substr(begin, next == std::string::npos ? next : next - begin);
    const size_t colon = header.find(':');
    if (colon != std::string::npos) {
      std::string name = header.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const size_t value = header.find_first_not_of(' ', colon + 1);
      request.headers[name] = value == std::string::npos ? "" : header.substr(value);
    }
    at = next;
  }
  std::string body;
  if (const std::string length = request.header("content-length"); !length.empty()) {
    const size_t wanted = std::stoull(length);
    while (connection.buffered.size() < wanted) {
      if (!connection.receive()) return false;
    }
    body = connection.buffered.substr(0, wanted);
    connection.buffered.erase(0, wanted);
  }
  FakeReply reply;
  Script script;
  size_t index;
  {
    const std::lock_guard lock(mutex_);
    request.count = counts_[request.method + " " + request.path]++;
    reply = storage ? reply_of_storage(request) : reply_to(request, body);
    script = script_;
    index = requests_.size();
    requests_.push_back(request);
  }
  if (script) script(request, reply);
  uint64_t sent = 0;
  const bool alive = send_reply(connection, request, reply, sent);
  request.begin = reply.file != nullptr ? reply.begin : 0;
  request.sent = sent;
  if (options_.on_end) options_.on_end(request);
  const std::lock_guard lock(mutex_);
  if (index < requests_.size()) requests_[index] = request;
  return alive;
}

bool FakeHub::send_reply(Connection& connection, const FakeRequest& request, FakeReply& reply,
                         uint64_t& sent) {
  const uint64_t length = reply.file != nullptr ? reply.end - reply.begin : reply.body.size();
  std::string head = fmt::format("HTTP/1.1 {} Fake\r\n", reply.status);
  bool announced = !reply.announce_length;
  for (const auto& [name, value] : reply.headers) {
    head += name + ": " + value + "\r\n";
    announced = announced || name == "Content-Length";
  }
  if (!announced) head += fmt::format("Content-Length: {}\r\n", length);
  if (!reply.announce_length) head += "Connection: close\r\n";
  head += "\r\n";
  if (!connection.send(head.data(), head.size())) return false;
  if (request.method == "HEAD") return reply.announce_length;

  uint64_t stop_at = length;
  for (const auto& fault : {reply.cut_after, reply.silent_after, reply.drip_after}) {
    if (fault) stop_at = std::min(stop_at, *fault);
  }
  const int disk = reply.file != nullptr && !reply.file->disk.empty()
                       ? ::open(reply.file->disk.c_str(), O_RDONLY | O_CLOEXEC)
                       : -1;
  const auto send_part = [&](uint64_t from, uint64_t to) {
    while (from < to) {
      ssize_t done = 0;
      if (disk >= 0 && !connection.tls) {
        auto offset = static_cast<off_t>(reply.begin + from);
        done = ::sendfile(connection.fd, disk, &offset, std::min<uint64_t>(to - from, 1 << 20));
      } else {
        std::string piece;
        if (disk >= 0) {
          piece.resize(std::min<uint64_t>(to - from, 1 << 18));
          piece.resize(static_cast<size_t>(std::max<ssize_t>(
              ::pread(disk, piece.data(), piece.size(), static_cast<off_t>(reply.begin + from)), 0)));
        } else {
          const std::string& all = reply.file != nullptr ? reply.file->content : reply.body;
          piece = all.substr((reply.file != nullptr ? reply.begin : 0) + from,
                             std::min<uint64_t>(to - from, 1 << 18));
        }
        done = connection.send(piece.data(), piece.size()) ? static_cast<ssize_t>(piece.size()) : -1;
      }
      if (done <= 0) return false;
      from += static_cast<uint64_t>(done);
      sent += static_cast<uint64_t>(done);
      total_sent_ += static_cast<uint64_t>(done);
    }
    return true;
  };
  bool alive = send_part(0, stop_at);
  if (alive && reply.cut_after && *reply.cut_after < length) alive = false;
  if (alive && reply.silent_after && *reply.silent_after < length) {
    // Until the client hangs up. What was sent may not have reached it yet, so its clock moves again and
    // again.
    pollfd waiting{connection.fd, POLLIN, 0};
    do {
      if (reply.when_silent) reply.when_silent();
    } while (!stop_ && ::poll(&waiting, 1, 100) == 0);
    alive = false;
  }
  for (uint64_t at = stop_at; alive && reply.drip_after && at < length; ++at) {
    if (reply.on_drip) reply.on_drip();
    alive = send_part(at, at + 1) && !stop_;
  }
  if (disk >= 0) ::close(disk);
  if (!alive) {
    // A reset where bytes are still on their way would take them back; this ends after what was sent.
    ::shutdown(connection.fd, SHUT_RDWR);
    return false;
  }
  return reply.announce_length;
}

FakeReply FakeHub::reply_to(const FakeRequest& request, const std::string& body) {
  std::string path = request.path;
  if (path.starts_with("/api/")) return reply_of_api(request, body);
  // /org/name/resolve/REVISION/path
  const size_t at = path.find("/resolve/");
  if (at == std::string::npos) return refusal(404, "", "Not found");
  const std::string name = path.substr(1, at - 1);
  const std::string rest = path.substr(at + 9);
  const size_t slash = rest.find('/');
  return reply_of_resolve(request, name, rest.substr(0, slash),
                          slash == std::string::npos ? "" : rest.substr(slash + 1));
}

FakeRepository* FakeHub::find_repository(const std::string& name, const std::string& revision,
                                         FakeReply& refused) {
  const auto at = repositories_.find(name);
  if (at == repositories_.end()) {
    refused = refusal(401, "", "Invalid username or password.");
    return nullptr;
  }
  if (const auto old = old_.find(name + "@" + revision); old != old_.end()) return &old->second;
  if (!at->second.branches.contains(revision) && revision != at->second.commit) {
    refused = refusal(404, "RevisionNotFound", "Invalid rev id: " + revision);
    return nullptr;
  }
  return &at->second;
}

FakeReply FakeHub::reply_of_api(const FakeRequest& request, const std::string& body) {
  FakeReply refused;
  std::string path = request.path;
  if (cut_front(path, "/api/resolve-cache/models/")) {
    // org/name/COMMIT/path
    const size_t owner = path.find('/'), name = path.find('/', owner + 1), commit = path.find('/', name + 1);
    FakeRepository* repository =
        find_repository(path.substr(0, name), path.substr(name + 1, commit - name - 1), refused);
    if (repository == nullptr) return refused;
    const auto file = repository->files.find(path.substr(commit + 1));
    if (file == repository->files.end()) return refusal(404, "EntryNotFound", "Entry not found");
    FakeReply reply;
    reply.file = &file->second;
    reply.set("ETag", "\"" + file->second.etag + "\"");
    reply.set("X-Repo-Commit", repository->commit);
    reply.set("Content-Type", "text/plain; charset=utf-8");
    apply_range(request, reply);
    return reply;
  }
  if (!cut_front(path, "/api/models/")) return refusal(404, "", "Not found");
  for (const std::string kind : {"/revision/", "/tree/", "/paths-info/"}) {
    const size_t at = path.find(kind);
    if (at == std::string::npos) continue;
    const std::string name = path.substr(0, at), revision = path.substr(at + kind.size());
    FakeRepository* repository = find_repository(name, revision, refused);
    if (repository == nullptr) return refused;
    if (kind == "/revision/") {
      json siblings = json::array();
      for (const auto& [file, ignored] : repository->files) siblings.push_back({{"rfilename", file}});
      return json_reply({{"_id", "0"},
                         {"id", name},
                         {"modelId", name},
                         {"sha", repository->commit},
                         {"private", false},
                         {"gated", json::parse(repository->gated)},
                         {"tags", {"safetensors", "license:" + repository->licence}},
                         {"lastModified", "2026-01-01T00:00:00.000Z"},
                         {"siblings", siblings}});
    }
    json list = json::array();
    if (kind == "/paths-info/") {
      const json asked = json::parse(body);
      for (const json& wanted : asked["paths"]) {
        const auto file = repository->files.find(wanted.get<std::string>());
        if (file == repository->files.end()) continue;
        json entry = entry_of(file->first, file->second);
        entry["lastCommit"] = {
            {"id", repository->commit}, {"title", "x"}, {"date", "2026-01-01T00:00:00.000Z"}};
        list.push_back(entry);
      }
      return json_reply(list);
    }
    const std::string cursor = parameter(request.query, "cursor");
    const size_t first = cursor.empty() ? 0 : std::stoull(cursor);
    size_t index = 0;
    for (const auto& [file, content] : repository->files) {
      if (index >= first && index < first + options_.page) list.push_back(entry_of(file, content));
      ++index;
    }
    FakeReply reply = json_reply(list);
    if (first + options_.page < index) {
      reply.set("Link", fmt::format("<{}/api/models/{}/tree/{}?recursive=true&cursor={}>; rel=\"next\"",
                                    url(), name, revision, first + options_.page));
    }
    return reply;
  }
  return refusal(404, "RepoNotFound", "Repository not found");
}

FakeReply FakeHub::reply_of_resolve(const FakeRequest& request, const std::string& name,
                                    const std::string& revision, const std::string& path) {
  FakeReply refused;
  FakeRepository* repository = find_repository(name, revision, refused);
  if (repository == nullptr) return refused;
  if (repository->gated != "false" && request.header("authorization").empty()) {
    return refusal(401, "GatedRepo", "Access to model " + name + " is restricted.");
  }
  const auto file = repository->files.find(path);
  if (file == repository->files.end()) {
    FakeReply reply = refusal(404, "EntryNotFound", "Entry not found");
    reply.set("X-Repo-Commit", repository->commit);
    return reply;
  }
  FakeReply reply;
  reply.set("X-Repo-Commit", repository->commit);
  if (!file->second.large) {
    reply.status = 307;
    reply.set("Location", fmt::format("/api/resolve-cache/models/{}/{}/{}?etag=%22{}%22", name,
                                      repository->commit, path, file->second.etag));
    reply.body = "Temporary Redirect";
    return reply;
  }
  reply.status = 302;
  reply.set("X-Linked-Etag", "\"" + file->second.etag + "\"");
  reply.set("X-Linked-Size", std::to_string(file->second.size));
  reply.set("X-Xet-Hash", file->second.etag);
  std::string location =
      fmt::format("{}/blob/{}?Signature={}", storage_url(), file->second.etag, requests_.size());
  if (const std::string range = request.header("range"); !range.empty())
    location += "&bound=" + range.substr(6);
  reply.set("Location", location);
  reply.body = std::string(913, 'x');
  return reply;
}

FakeReply FakeHub::reply_of_storage(const FakeRequest& request) {
  std::string etag = request.path;
  cut_front(etag, "/blob/");
  const std::string bound = parameter(request.query, "bound");
  if (!bound.empty() && request.header("range") != "bytes=" + bound) {
    FakeReply reply;
    reply.become(403, "Auth failed: invalid range");
    return reply;
  }
  for (auto* repositories : {&repositories_, &old_}) {
    for (auto& [name, repository] : *repositories) {
      for (auto& [path, file] : repository.files) {
        if (file.etag != etag || !file.large) continue;
        FakeReply reply;
        reply.file = &file;
        reply.set("Content-Type", "application/octet-stream");
        reply.set("Accept-Ranges", "bytes");
        reply.set("ETag", "\"" + etag + "\"");
        apply_range(request, reply);
        return reply;
      }
    }
  }
  FakeReply reply;
  reply.become(404, "no such blob");
  return reply;
}

void FakeHub::add(const std::string& name, const std::string& path, const std::string& content, bool large) {
  const std::lock_guard lock(mutex_);
  FakeRepository& repository = repositories_[name];
  if (history_) old_[name + "@" + repository.commit] = repository;
  repository.files[path] = {content, "", content.size(), large,
                            large ? sha256_of(content) : git_sha1_of(content)};
  repository.commit = commit_of(repository);
}

void FakeHub::add_folder(const std::string& name, const std::string& folder) {
  const std::lock_guard lock(mutex_);
  FakeRepository& repository = repositories_[name];
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().lexically_relative(folder).string();
    const uint64_t size = entry.file_size();
    const bool large = path.ends_with(".safetensors") || size >= 1'000'000;
    const std::string disk = entry.path().string();
    repository.files[path] = {"", disk, size, large,
                              large ? sha256_of_file(disk) : git_sha1_of(read_whole(disk))};
  }
  repository.commit = commit_of(repository);
}

void FakeHub::adopt(const std::string& name, FakeRepository repository) {
  const std::lock_guard lock(mutex_);
  repositories_[name] = std::move(repository);
}

FakeRepository& FakeHub::repository(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return repositories_.at(name);
}

void FakeHub::remove(const std::string& name, const std::string& path) {
  const std::lock_guard lock(mutex_);
  repositories_.at(name).files.erase(path);
  repositories_.at(name).commit = commit_of(repositories_.at(name));
}

void FakeHub::remove_repository(const std::string& name) {
  const std::lock_guard lock(mutex_);
  repositories_.erase(name);
}

void FakeHub::set_script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

std::vector<FakeRequest> FakeHub::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeHub::forget_requests() {
  const std::lock_guard lock(mutex_);
  requests_.clear();
  counts_.clear();
}

uint64_t FakeHub::sent_of(const std::string& part_of_path) const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const FakeRequest& request : requests_) {
    if (request.path.find(part_of_path) != std::string::npos) bytes += request.sent;
  }
  return bytes;
}

size_t FakeHub::count_of(const std::string& part_of_path) const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(
      requests_.begin(), requests_.end(),
      [&](const FakeRequest& request) { return request.path.find(part_of_path) != std::string::npos; }));
}

}  // namespace slip::test
