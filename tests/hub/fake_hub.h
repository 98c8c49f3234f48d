// A hub for tests, on two ports of the loopback address: one speaks the hub's API, the other is where its
// redirects lead for large files. It serves repositories from memory or from a folder, records every request,
// and a script may change any reply: its status, its headers, where it breaks off or falls silent.
//
// Addresses of large files are signed as the hub signs them: one that was made for a Range serves no other.
// Plain sockets, one thread per connection; everything ends with the object.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace slip::test {

std::string sha256_of(const std::string& bytes);
std::string git_sha1_of(const std::string& bytes);
/// The same of a file's bytes, which are read a piece at a time.
std::string sha256_of_file(const std::string& path);

struct FakeFile {
  std::string content;  // or
  std::string disk;     // the path of a file that holds it
  uint64_t size = 0;
  bool large = false;  // LFS: lives on the other port, named by its SHA-256
  std::string etag;    // the name of its blob
};

struct FakeRepository {
  std::string commit;
  std::map<std::string, FakeFile> files;
  std::string gated = "false";  // JSON
  std::string licence = "apache-2.0";
  std::set<std::string> branches = {"main"};
};

struct FakeRequest {
  bool storage = false;  // came to the second port
  std::string method, target, path, query;
  std::map<std::string, std::string> headers;  // names in lower case
  int count = 0;                               // requests before this one with the same method and path
  uint64_t begin = 0;                          // where in the file the body begins
  uint64_t sent = 0;                           // bytes of the body that went out; of a finished request

  std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

struct FakeReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = "";
  const FakeFile* file = nullptr;  // the body is a part of it
  uint64_t begin = 0, end = 0;

  // Faults.
  std::optional<uint64_t> cut_after = {};     // bytes of the body; then the connection is reset
  std::optional<uint64_t> silent_after = {};  // bytes of the body; then nothing more comes
  std::function<void()> when_silent = {};
  std::optional<uint64_t> drip_after = {};  // then a byte at a time, calling `on_drip` before each
  std::function<void()> on_drip = {};
  bool announce_length = true;

  void set(const std::string& name, const std::string& value) {
    std::erase_if(headers, [&](const auto& header) { return header.first == name; });
    headers.emplace_back(name, value);
  }
  void drop(const std::string& name) {
    std::erase_if(headers, [&](const auto& header) { return header.first == name; });
  }
  void become(int new_status, const std::string& text) {
    status = new_status;
    headers.clear();
    body = text;
    file = nullptr;
  }
};

class FakeHub {
 public:
  struct Options {
    int port = 0;        // 0 = any
    bool tls = false;    // https on both ports
    size_t page = 1000;  // files on a page of a listing
    /// Called for every request that ended, however it did, by several threads at once; all calls are over
    /// when the hub is destroyed.
    std::function<void(const FakeRequest&)> on_end = {};
  };
  FakeHub() : FakeHub(Options{}) {}
  explicit FakeHub(Options options);
  ~FakeHub();
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  std::string url() const { return scheme_ + "://127.0.0.1:" + std::to_string(ports_[0]); }
  std::string storage_url() const { return scheme_ + "://127.0.0.1:" + std::to_string(ports_[1]); }
  /// The authority that signed the certificate, as PEM. Only with tls.
  const std::string& authority() const { return authority_; }

  /// Adds or replaces a file; the repository's commit changes with it.
  void add(const std::string& repository, const std::string& path, const std::string& content,
           bool large = false);
  /// Every file below the folder; those named *.safetensors and those of 1 MB and more are large.
  void add_folder(const std::string& repository, const std::string& folder);
  FakeRepository& repository(const std::string& name);
  /// From now on what changes leaves its old commit behind, which is still served by its name.
  void keep_history() { history_ = true; }
  /// A repository as another hub had it: nothing is read or hashed again.
  void adopt(const std::string& name, FakeRepository repository);
  void remove(const std::string& repository, const std::string& path);
  void remove_repository(const std::string& name);

  /// Called for every reply before it is sent, by several threads at once.
  using Script = std::function<void(const FakeRequest&, FakeReply&)>;
  void set_script(Script script);

  std::vector<FakeRequest> requests() const;
  void forget_requests();
  /// Bytes of bodies that went out for this path of a repository (or blob of the storage port).
  uint64_t sent_of(const std::string& part_of_path) const;
  size_t count_of(const std::string& part_of_path) const;
  /// Bytes of all bodies so far, of replies that are still on their way too.
  uint64_t total_sent() const { return total_sent_; }
  /// Ends every open connection, as a line does that is cut.
  void cut_connections();

 private:
  struct Connection;
  struct Tls;
  void listen_on(int index, int port);
  void accept_loop(int index);
  void serve(int fd, bool storage);
  bool serve_one(Connection& connection, bool storage);
  FakeReply reply_to(const FakeRequest& request, const std::string& body);
  FakeReply reply_of_api(const FakeRequest& request, const std::string& body);
  FakeReply reply_of_resolve(const FakeRequest& request, const std::string& repository,
                             const std::string& revision, const std::string& path);
  FakeReply reply_of_storage(const FakeRequest& request);
  bool send_reply(Connection& connection, const FakeRequest& request, FakeReply& reply, uint64_t& sent);
  FakeRepository* find_repository(const std::string& name, const std::string& revision, FakeReply& refusal);

  const Options options_;
  std::string scheme_ = "http";
  std::string authority_;
  std::unique_ptr<Tls> tls_;
  int ports_[2] = {};
  int listeners_[2] = {-1, -1};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> total_sent_{0};
  mutable std::mutex mutex_;
  std::map<std::string, FakeRepository> repositories_;
  std::map<std::string, FakeRepository> old_;  // by name and commit
  bool history_ = false;
  Script script_;
  std::vector<FakeRequest> requests_;
  std::map<std::string, int> counts_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptors_[2];
};

}  // namespace slip::test
