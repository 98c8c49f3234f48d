// The decoder with its processes: what comes back is what the same code gives in process, and nothing that a
// worker does can hurt its parent.
#include "media/decoder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "media/decoders.h"
#include "media/media_file.h"
#include "media/resize.h"
#include "media/samples.h"
#include "support/sanitized.h"

namespace slip::media {
namespace {

using std::chrono::milliseconds;
using test::bytes_of;

WorkerCommand real_worker() {
  return {.program = SLIP_MEDIA_WORKER};
}

Fault fault_of(Decoder& decoder, const std::string& file, std::stop_token stop = {}) {
  try {
    decoder.decode(bytes_of(file), "x", {}, stop);
  } catch (const Refused& refused) {
    return refused.fault();
  }
  return Fault::kNone;
}

/// How a worker that misbehaves in this way comes out.
Fault fault_of_way(const std::string& way, milliseconds limit = milliseconds(120'000)) {
  Decoder decoder({.worker = {.program = SLIP_FALSE_WORKER, .arguments = {way}}, .time_limit = limit});
  return fault_of(decoder, test::png(test::picture(48, 48)));
}

TEST(Decoder, gives_the_patches_that_the_same_code_gives_in_process) {
  Decoder decoder({.worker = real_worker()});
  const std::string file = test::jpeg(test::picture(300, 200), {.app1 = test::exif(6)});
  for (const PatchSide side : {PatchSide::kPatch, PatchSide::kBlock}) {
    const ImagePatches got = decoder.decode(bytes_of(file), "x", {.budget = 140, .side = side});
    Decoded image = decode_picture(bytes_of(file), {});
    const Fit size = fit(200, 300, 140);
    const Pixels resized = resize(std::move(image.pixels), size.width, size.height);
    const ImagePatches want = cut_patches(resized.rgb.get(), resized.width, resized.height, side);
    EXPECT_EQ(got.samples, want.samples);
    EXPECT_EQ(got.columns, want.columns);
    EXPECT_EQ(got.soft_tokens, size.soft_tokens);
    EXPECT_EQ(got.image_width, 200);
    EXPECT_EQ(got.image_height, 300);
    EXPECT_EQ(got.budget, 140);
  }
}

TEST(Decoder, says_what_it_did_to_the_picture) {
  Decoder decoder({.worker = real_worker()});
  const auto small =
      decoder.decode(bytes_of(test::png(test::picture(100, 100))), "x", {.budget = kAutoBudget});
  EXPECT_EQ(small.budget, 70);
  EXPECT_FALSE(small.shrunk || small.animated || small.transparent);
  const auto large = decoder.decode(bytes_of(test::png(test::picture(1000, 1000))), "x", {.budget = 70});
  EXPECT_TRUE(large.shrunk);
  const auto clear =
      decoder.decode(bytes_of(test::gif(2, 1, std::string("\1\2", 2), {.transparent = 1, .frames = 2})), "x");
  EXPECT_TRUE(clear.animated && clear.transparent);
}

TEST(Decoder, refuses_with_the_name_as_it_was_given) {
  Decoder decoder({.worker = real_worker()});
  try {
    decoder.decode(bytes_of("%PDF-1.4 ..."), "messages[2].content[0]", {});
    FAIL();
  } catch (const Refused& refused) {
    EXPECT_STREQ(
        refused.what(),
        "messages[2].content[0]: is a PDF document, which is not read as a picture; JPEG, PNG, WebP and GIF "
        "are read");
  }
  EXPECT_EQ(fault_of(decoder, ""), Fault::kEmpty);
  EXPECT_EQ(fault_of(decoder, "hello"), Fault::kUnknownKind);
  EXPECT_EQ(fault_of(decoder, test::png(test::picture(30, 30)).substr(0, 60)), Fault::kCutOff);
}

TEST(Decoder, a_budget_that_is_none_is_wrong_usage) {
  Decoder decoder({.worker = real_worker()});
  try {
    decoder.decode(bytes_of(test::png(test::picture(8, 8))), "x", {.budget = 300});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
  }
}

TEST(Decoder, outlives_every_way_in_which_a_worker_can_fail) {
  EXPECT_EQ(fault_of_way("silent"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("exits-7"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("crashes"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("other-version"), Fault::kNoWorker);
  EXPECT_EQ(fault_of_way("no-sandbox"), Fault::kNoSandbox);
  EXPECT_EQ(fault_of_way("hangs", milliseconds(100)), Fault::kTooSlow);
}

TEST(Decoder, believes_no_number_that_cannot_be) {
  EXPECT_EQ(fault_of_way("says-huge"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("says-negative"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("says-nothing-there"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("says-unknown-fault"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("says-unknown-kind"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("says-damaged"), Fault::kDamaged);
}

TEST(Decoder, shares_memory_that_the_worker_can_neither_shrink_nor_rewrite) {
  EXPECT_EQ(fault_of_way("shrinks-output"), Fault::kNone);
  EXPECT_EQ(fault_of_way("writes-input"), Fault::kNone);
}

TEST(Decoder, gives_the_worker_nothing_of_its_own) {
  const int leaked = ::fcntl(STDERR_FILENO, F_DUPFD, 50);  // without O_CLOEXEC
  ::setenv("SLIP_SECRET", "token", 1);
  EXPECT_EQ(fault_of_way("inherits"), Fault::kNone);
  ::unsetenv("SLIP_SECRET");
  ::close(leaked);
}

TEST(Sandbox, kills_what_reaches_out) {
  // The way that only takes a little memory shows that the others fail for what they did.
  EXPECT_EQ(fault_of_way("takes-enough"), Fault::kNone);
  for (const char* way : {"opens-file", "connects", "forks", "runs-data"}) {
    EXPECT_EQ(fault_of_way(way), Fault::kDecoderDied) << way;
  }
  if (!slip::test::kSanitized) {
    EXPECT_EQ(fault_of_way("signals"), Fault::kDecoderDied);
    EXPECT_EQ(fault_of_way("takes-too-much"), Fault::kDecoderDied);
    Decoder decoder({.worker = {.program = SLIP_FALSE_WORKER, .arguments = {"burns"}},
                     .cpu_limit = std::chrono::seconds(1)});
    EXPECT_EQ(fault_of(decoder, test::png(test::picture(8, 8))), Fault::kTooSlow);
  }
}

TEST(Decoder, a_worker_program_that_is_not_there_is_our_fault_and_says_so) {
  Decoder decoder({.worker = {.program = "/nowhere/slipstream-media-worker"}});
  EXPECT_EQ(fault_of(decoder, test::png(test::picture(8, 8))), Fault::kNoWorker);
  EXPECT_TRUE(openai_code(Fault::kNoWorker).empty());
}

TEST(Decoder, the_installed_worker_is_found_beside_the_code_and_is_never_this_program) {
  const std::filesystem::path found = installed_worker().program;
  EXPECT_EQ(std::filesystem::canonical(found), std::filesystem::canonical(SLIP_MEDIA_WORKER));
  EXPECT_NE(std::filesystem::canonical(found), std::filesystem::canonical("/proc/self/exe"));
  EXPECT_EQ(Decoder().decode(bytes_of(test::png(test::picture(9, 8))), "x").image_width, 9);
}

TEST(Decoder, a_caller_that_stops_waits_no_longer) {
  Decoder decoder({.worker = {.program = SLIP_FALSE_WORKER, .arguments = {"hangs"}}, .at_once = 1});
  const std::string file = test::png(test::picture(8, 8));
  std::stop_source first;
  std::stop_source second;
  std::jthread waiting([&] { EXPECT_EQ(fault_of(decoder, file, first.get_token()), Fault::kCancelled); });
  std::jthread queued([&] { EXPECT_EQ(fault_of(decoder, file, second.get_token()), Fault::kCancelled); });
  std::this_thread::sleep_for(milliseconds(20));
  second.request_stop();
  first.request_stop();
  waiting.join();
  queued.join();
  std::stop_source third;
  third.request_stop();
  EXPECT_EQ(fault_of(decoder, file, third.get_token()), Fault::kCancelled);
}

TEST(Decoder, callers_from_many_threads_each_get_their_own_picture) {
  Decoder decoder({.worker = real_worker(), .at_once = 2});
  std::vector<std::jthread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&decoder, i] {
      for (int round = 0; round < 4; ++round) {
        const int width = 40 + 10 * i + round;
        const auto got = decoder.decode(bytes_of(test::png(test::picture(width, 50))), "x", {.budget = 70});
        EXPECT_EQ(got.image_width, width);
      }
    });
  }
}

TEST(Decoder, leaves_no_process_and_no_open_file_behind) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator{});
  };
  const auto before = open_files();
  fault_of_way("crashes");
  fault_of_way("hangs", milliseconds(50));
  fault_of_way("says-damaged");
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // there are no children
}

TEST(Decoder, works_for_a_caller_that_lets_the_system_reap_its_children) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  Decoder decoder({.worker = real_worker()});
  EXPECT_EQ(decoder.decode(bytes_of(test::png(test::picture(9, 9))), "x").image_width, 9);
  EXPECT_EQ(fault_of_way("crashes"), Fault::kDecoderDied);
  EXPECT_EQ(fault_of_way("hangs", milliseconds(50)), Fault::kTooSlow);
  std::signal(SIGCHLD, before);
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("slip-media-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  std::string path(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string message_for(Decoder& decoder, const std::string& path) {
  try {
    decoder.decode_file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Decoder, reads_files_and_pipes_and_names_what_it_cannot_read) {
  const Folder folder;
  Decoder decoder({.worker = real_worker(), .limits = {.bytes = 100'000}});
  const std::string good = test::png(test::picture(31, 17));
  EXPECT_EQ(decoder.decode_file(folder.file("a b.jpg", good)).image_width, 31);

  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int keep = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // so that the reader finds a writer
  std::jthread writer([&] {
    const int fd = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_EQ(::write(fd, good.data(), good.size()), static_cast<ssize_t>(good.size()));
    ::close(fd);
    ::close(keep);
  });
  EXPECT_EQ(decoder.decode_file(pipe).image_width, 31);
  writer.join();

  const std::string missing = folder.path("missing.png");
  EXPECT_EQ(message_for(decoder, missing), missing + ": cannot be opened (No such file or directory)");
  EXPECT_EQ(message_for(decoder, folder.path("")), folder.path("") + ": is a folder; name the picture in it");
  EXPECT_EQ(message_for(decoder, "/dev/zero"), "/dev/zero: is neither a file nor a pipe; name a picture");
  const std::string empty = folder.file("empty.png", "");
  EXPECT_EQ(message_for(decoder, empty), empty + ": is empty; send the picture's bytes");
  EXPECT_EQ(message_for(decoder, pipe), pipe + ": is empty; send the picture's bytes");
  const std::string large = folder.file("large.png", good + std::string(100'000, 'x'));
  EXPECT_NE(message_for(decoder, large).find("is larger than"), std::string::npos);
  EXPECT_EQ(read_media_file(large, {.bytes = good.size() + 100'000}).size(), good.size() + 100'000);
  EXPECT_THROW(read_media_file(large, {.bytes = good.size() + 99'999}), Refused);
}

}  // namespace
}  // namespace slip::media
