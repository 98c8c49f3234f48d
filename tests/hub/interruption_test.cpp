// Downloads that end at random moments: the line is cut, the program is killed, the server restarts. Each
// ends with the right file after the next run, and little is sent twice. Twenty of them here; with
// SLIP_INTERRUPTIONS=200 and SLIP_INTERRUPTED_MB=1000 in the environment as many and as large as wanted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/noise.h"
#include "checkpoint/files.h"
#include "hub/fake_hub.h"

namespace slip::hub {
namespace {

namespace fs = std::filesystem;
using test::FakeHub;

uint64_t number_from(const char* name, uint64_t usual) {
  const char* value = std::getenv(name);
  return value == nullptr ? usual : std::strtoull(value, nullptr, 10);
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Interruptions : public testing::TestWithParam<int> {
 protected:
  // More than may be fetched twice, or the limit would mean nothing.
  Interruptions() : size_(number_from("SLIP_INTERRUPTED_MB", GetParam() == 1 ? 48 : 160) << 20) {
    const std::string folder = folder_ / "models/me/large";
    fs::create_directories(folder);
    std::ofstream(folder + "/config.json") << "{}";
    std::ofstream weights(folder + "/model.safetensors", std::ios::binary);
    std::string block(1 << 20, '\0');
    for (uint64_t i = 0; i < size_ >> 20; ++i) {
      for (size_t k = 0; k < block.size(); k += 8) {
        const uint64_t word = keyed_bits(noise_key(7, i), k);
        std::memcpy(block.data() + k, &word, 8);
      }
      weights << block;
    }
    weights.close();
    start_server();
    etag_ = server_->repository("me/large").files.at("model.safetensors").etag;
  }

  /// On the same ports as before: whoever was connected finds it again.
  void start_server() {
    server_ = std::make_unique<FakeHub>(FakeHub::Options{.port = port_});
    if (port_ == 0) {
      // Ports of the next ones follow from this one's.
      port_ = 20000 + static_cast<int>(::getpid() % 10000) * 2;
      server_ = std::make_unique<FakeHub>(FakeHub::Options{.port = port_});
    }
    server_->add_folder("me/large", folder_ / "models/me/large");
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
  bool running(pid_t child) { return waitpid(child, nullptr, WNOHANG | WNOWAIT) == 0 && kill(child, 0) == 0; }

  test::TempFolder folder_;
  const uint64_t size_;
  int port_ = 0;
  std::unique_ptr<FakeHub> server_;
  std::string etag_;
};

TEST_P(Interruptions, end_with_the_right_file_and_little_fetched_twice) {
  const int connections = GetParam();
  const uint64_t rounds = number_from("SLIP_INTERRUPTIONS", 20) / 2;
  std::mt19937_64 random(static_cast<uint64_t>(connections) * 1000 + 5);
  uint64_t most_twice = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    fs::remove_all(folder_ / "cache");
    const auto kind = static_cast<int>(round % 3);
    const uint64_t moment = random() % size_;
    uint64_t sent_before = 0;
    const uint64_t start = server_->total_sent();
    pid_t child = start_pull();
    while (server_->total_sent() - start < moment)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    if (kind == 0) {
      kill(child, SIGKILL);
      EXPECT_EQ(wait_for(child), 1000 + SIGKILL);
      child = start_pull();
    } else if (kind == 1) {
      server_->cut_connections();
    } else {
      sent_before = server_->total_sent() - start;
      server_.reset();
      start_server();
    }
    int result = wait_for(child);
    for (int tries = 0; result != 0 && tries < 3; ++tries) result = wait_for(start_pull());
    ASSERT_EQ(result, 0) << text_of(folder_ / "log");
    const fs::path blob = fs::path(folder_ / "cache") / "models--me--large" / "blobs" / etag_;
    ASSERT_EQ(fs::file_size(blob), size_);
    ASSERT_EQ(test::sha256_of(text_of(blob)), etag_);
    const uint64_t sent = server_->total_sent() + sent_before - (sent_before > 0 ? 0 : start);
    const uint64_t twice = sent - std::min(sent, size_);
    most_twice = std::max(most_twice, twice);
    EXPECT_LE(twice, (uint64_t{16} << 20) * static_cast<uint64_t>(connections) + (1 << 20))
        << "kind " << kind << " at byte " << moment;
  }
  RecordProperty("most_bytes_sent_twice", std::to_string(most_twice));
  std::printf("%d connections: at most %.1f MiB sent twice in %zu interruptions\n", connections,
              static_cast<double>(most_twice) / (1 << 20), static_cast<size_t>(rounds));
}

INSTANTIATE_TEST_SUITE_P(With, Interruptions, testing::Values(1, 8),
                         [](const auto& with) { return std::to_string(with.param) + "_connections"; });

}  // namespace
}  // namespace slip::hub
