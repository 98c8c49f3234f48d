// Downloads that end at random moments: the line is cut, the program is killed, the server restarts. Each
// ends with the right file after the next run, and little is sent twice: the server's log has which bytes of
// the file every reply held, so what was sent twice is counted, not guessed from totals. Twenty of them here;
// with SLIP_INTERRUPTIONS=200 and SLIP_INTERRUPTED_MB=1000 in the environment as many and as large as wanted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "base/noise.h"
#include "checkpoint/files.h"
#include "hub/fake_hub.h"

namespace slip::hub {
namespace {

namespace fs = std::filesystem;
using test::FakeHub;
using test::FakeRequest;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMostTwice = 16 * kMiB;  // a connection
constexpr auto kPatience = std::chrono::minutes(5);

uint64_t number_from(const char* name, uint64_t usual) {
  const char* value = std::getenv(name);
  return value == nullptr ? usual : std::strtoull(value, nullptr, 10);
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Which bytes of one file went out, by the log of every server that sent some of them.
class SentBytes {
 public:
  void add(uint64_t begin, uint64_t count) {
    const std::lock_guard lock(mutex_);
    if (count > 0) parts_.emplace_back(begin, begin + count);
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    parts_.clear();
  }
  struct Sum {
    uint64_t sent = 0;       // all of them
    uint64_t different = 0;  // each byte of the file once
  };
  Sum sum() const {
    const std::lock_guard lock(mutex_);
    auto parts = parts_;
    std::sort(parts.begin(), parts.end());
    Sum sum;
    uint64_t reached = 0;
    for (const auto& [begin, end] : parts) {
      sum.sent += end - begin;
      if (end > reached) sum.different += end - std::max(begin, reached);
      reached = std::max(reached, end);
    }
    return sum;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<uint64_t, uint64_t>> parts_;
};

enum class Interruption { kKill, kCutLine, kRestart };

const char* name_of(Interruption kind) {
  return kind == Interruption::kKill      ? "kill"
         : kind == Interruption::kCutLine ? "cut line"
                                          : "server restart";
}

class Interruptions : public testing::TestWithParam<int> {
 protected:
  // More than may be fetched twice, or the limit would mean nothing.
  Interruptions()
      : size_(number_from("SLIP_INTERRUPTED_MB", GetParam() == 1 ? 48 : 160) * kMiB),
        // Below where the system takes ports for connections from.
        port_(20000 + static_cast<int>(::getpid() % 6000) * 2) {
    const std::string folder = folder_ / "models/me/large";
    fs::create_directories(folder);
    std::ofstream(folder + "/config.json") << "{}";
    std::ofstream weights(folder + "/model.safetensors", std::ios::binary);
    std::string block(kMiB, '\0');
    for (uint64_t i = 0; i < size_ / kMiB; ++i) {
      for (size_t k = 0; k < block.size(); k += 8) {
        const uint64_t word = keyed_bits(noise_key(7, i), k);
        std::memcpy(block.data() + k, &word, 8);
      }
      weights << block;
    }
    weights.close();
    start_server();
    server_->add_folder("me/large", folder);
    etag_ = server_->repository("me/large").files.at("model.safetensors").etag;
  }
  ~Interruptions() override { server_.reset(); }

  void start_server() {
    FakeHub::Options options{.port = port_};
    options.on_end = [this](const FakeRequest& request) {
      if (request.method == "GET" && request.path == "/blob/" + etag_) sent_.add(request.begin, request.sent);
    };
    server_ = std::make_unique<FakeHub>(std::move(options));
  }
  /// On the same ports: whoever was connected finds it again.
  void restart_server() {
    test::FakeRepository repository = server_->repository("me/large");
    server_.reset();
    start_server();
    server_->adopt("me/large", std::move(repository));
  }

  pid_t start_pull() {
    const pid_t child = fork();
    if (child != 0) return child;
    setenv("HF_ENDPOINT", server_->url().c_str(), 1);
    setenv("HF_HUB_CACHE", (folder_ / "cache").c_str(), 1);
    unsetenv("HF_TOKEN");
    if (std::freopen((folder_ / "log").c_str(), "a", stdout) == nullptr) _exit(99);
    execl(SLIP_PULL_TOOL, SLIP_PULL_TOOL, "me/large", std::to_string(GetParam()).c_str(), nullptr);
    _exit(98);
  }
  int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  bool wait_for_sent(uint64_t bytes) {
    const uint64_t start = server_->total_sent();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (server_->total_sent() - start < bytes) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    return true;
  }
  void pull_interrupted(Interruption kind, std::mt19937_64& random);

  test::TempFolder folder_;
  const uint64_t size_;
  const int port_;
  SentBytes sent_;
  std::unique_ptr<FakeHub> server_;
  std::string etag_;
};

/// Leaves a complete model behind, after one interruption.
void Interruptions::pull_interrupted(Interruption kind, std::mt19937_64& random) {
  const uint64_t moment = random() % size_;
  SCOPED_TRACE(std::string(name_of(kind)) + " at byte " + std::to_string(moment));
  pid_t child = start_pull();
  ASSERT_TRUE(wait_for_sent(moment)) << text_of(folder_ / "log");
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
  if (kind == Interruption::kKill) {
    kill(child, SIGKILL);
    const int result = wait_for(child);
    ASSERT_TRUE(result == 1000 + SIGKILL || result == 0) << result;  // 0: it was done already
    child = start_pull();
  } else if (kind == Interruption::kCutLine) {
    server_->cut_connections();
  } else {
    restart_server();
  }
  int result = wait_for(child);
  for (int tries = 0; result != 0 && tries < 3; ++tries) result = wait_for(start_pull());
  ASSERT_EQ(result, 0) << text_of(folder_ / "log");
}

TEST_P(Interruptions, end_with_the_right_file_and_little_fetched_twice) {
  const int connections = GetParam();
  const uint64_t rounds = number_from("SLIP_INTERRUPTIONS", 20) / 2;
  std::mt19937_64 random(static_cast<uint64_t>(connections) * 1000 + number_from("SLIP_SEED", 5));
  uint64_t most_twice = 0, right = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    const auto kind = static_cast<Interruption>(round % 3);
    fs::remove_all(folder_ / "cache");
    sent_.forget();
    ASSERT_NO_FATAL_FAILURE(pull_interrupted(kind, random)) << "round " << round;
    const fs::path blob = fs::path(folder_ / "cache") / "models--me--large" / "blobs" / etag_;
    ASSERT_EQ(fs::file_size(blob), size_);
    ASSERT_EQ(test::sha256_of_file(blob.string()), etag_);
    ++right;
    // Connections that were cut may not have been written down yet.
    restart_server();
    const SentBytes::Sum sum = sent_.sum();
    ASSERT_EQ(sum.different, size_) << "the log does not hold all that was sent";
    const uint64_t twice = sum.sent - sum.different;
    most_twice = std::max(most_twice, twice);
    ASSERT_LE(twice, kMostTwice * static_cast<uint64_t>(connections)) << name_of(kind);
  }
  std::printf("%d connections: %zu right files of %zu interruptions, at most %.1f MiB sent twice\n",
              connections, static_cast<size_t>(right), static_cast<size_t>(rounds),
              static_cast<double>(most_twice) / static_cast<double>(kMiB));
  std::fflush(stdout);  // or every process that is forked later prints it again
}

INSTANTIATE_TEST_SUITE_P(With, Interruptions, testing::Values(1, 8),
                         [](const auto& with) { return std::to_string(with.param) + "_connections"; });

}  // namespace
}  // namespace slip::hub
