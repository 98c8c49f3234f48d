// A decode worker that misbehaves in the way its first argument names: what the parent must survive. Some
// ways go through the sandbox first and then do what it forbids; they reply only if they were let.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "media/protocol.h"
#include "media/sandbox.h"

namespace slip::media {
namespace {

Page* page() {
  struct stat info {};
  ::fstat(kOutputDescriptor, &info);
  void* at = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED,
                    kOutputDescriptor, 0);
  return static_cast<Page*>(at);
}

void reply(int width, int height, Fault fault = Fault::kNone, Kind kind = Kind::kPng) {
  Page* shared = page();
  shared->reply.image_width = width;
  shared->reply.image_height = height;
  shared->reply.refusal = {.fault = fault, .kind = kind, .width = width, .height = height};
  shared->reply.mark = kReplyMark;
}

/// Does `forbidden` in the sandbox; a reply says that it was let.
void try_in_sandbox(const std::function<bool()>& forbidden) {
  Page* shared = page();
  const Request& request = shared->request;
  if (!enter_sandbox(
          {.memory_bytes = uint64_t{64} << 20, .cpu_seconds = request.cpu_seconds, .parent = request.parent}))
    ::_exit(static_cast<int>(WorkerExit::kNoSandbox));
  if (!forbidden()) ::_exit(7);
  shared->reply.image_width = shared->reply.image_height = 48;
  shared->reply.mark = kReplyMark;
  ::_exit(0);
}

bool takes_memory(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at != MAP_FAILED;
}

/// Descriptors of the parent beyond our two, or anything of its environment.
bool inherits_something() {
  for (int fd = kOutputDescriptor + 1; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) return true;
  }
  return std::getenv("SLIP_SECRET") != nullptr || ::getpgrp() != ::getpid();
}

const std::map<std::string, std::function<void()>> kWays{
    {"silent", [] {}},
    {"exits-7", [] { ::_exit(7); }},
    {"crashes", [] { std::raise(SIGABRT); }},
    {"hangs",
     [] {
       for (;;) ::pause();
     }},
    {"other-version", [] { ::_exit(static_cast<int>(WorkerExit::kWrongVersion)); }},
    {"no-sandbox", [] { ::_exit(static_cast<int>(WorkerExit::kNoSandbox)); }},
    {"says-huge", [] { reply(2'000'000'000, 2'000'000'000); }},
    {"says-negative", [] { reply(-48, 48); }},
    {"says-nothing-there", [] { reply(0, 0); }},
    {"says-unknown-fault", [] { reply(1, 1, static_cast<Fault>(4711)); }},
    {"says-unknown-kind", [] { reply(1, 1, Fault::kDamaged, static_cast<Kind>(4711)); }},
    {"says-damaged", [] { reply(640, 480, Fault::kDamaged, Kind::kGif); }},
    {"shrinks-output", [] { reply(::ftruncate(kOutputDescriptor, 0) == 0 ? -1 : 48, 48); }},
    {"writes-input", [] { reply(::write(kInputDescriptor, "x", 1) == 1 ? -1 : 48, 48); }},
    {"inherits", [] { reply(inherits_something() ? -1 : 48, 48); }},
    {"opens-file", [] { try_in_sandbox([] { return ::open("/etc/passwd", O_RDONLY) >= 0; }); }},
    {"connects", [] { try_in_sandbox([] { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0; }); }},
    {"forks", [] { try_in_sandbox([] { return ::fork() >= 0; }); }},
    {"signals", [] { try_in_sandbox([] { return ::kill(::getppid(), 0) == 0; }); }},
    {"runs-data",
     [] {
       try_in_sandbox([] {
         return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0) != MAP_FAILED;
       });
     }},
    {"takes-too-much", [] { try_in_sandbox([] { return takes_memory(size_t{256} << 20); }); }},
    {"burns",
     [] {
       try_in_sandbox([] {
         for (std::atomic<uint64_t> turns = 0;;) ++turns;
         return true;
       });
     }},
    {"takes-enough", [] { try_in_sandbox([] { return takes_memory(size_t{8} << 20); }); }},
};

}  // namespace
}  // namespace slip::media

int main(int argc, char** argv) {
  const auto way = slip::media::kWays.find(argc > 1 ? argv[1] : "");
  if (way == slip::media::kWays.end()) return 9;
  way->second();
  return 0;
}
