#include "media/worker.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

#include "media/decoders.h"
#include "media/fit.h"
#include "media/protocol.h"
#include "media/resize.h"
#include "media/sandbox.h"

namespace slip::media {
namespace {

/// Ends without running destructors or handlers of exit, whose system calls the sandbox does not know.
[[noreturn]] void end(WorkerExit code) {
  for (;;) ::syscall(SYS_exit_group, static_cast<int>(code));
}

size_t file_size(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) : 0;
}

void* map(int fd, size_t size, int protection) {
  void* at = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  ::close(fd);
  return at == MAP_FAILED ? nullptr : at;
}

/// The page from the parent, or nullptr when we were not started by one.
Page* open_page(size_t& size) {
  size = file_size(kOutputDescriptor);
  if (size < kPixelOffset) return nullptr;
  auto* page = static_cast<Page*>(map(kOutputDescriptor, size, PROT_READ | PROT_WRITE));
  return page != nullptr && page->request.mark == kRequestMark ? page : nullptr;
}

void work(Bytes input, const Request& request, Reply& reply, uint8_t* output) {
  Decoded decoded = decode_picture(input, request.limits);
  const Fit size = fit(decoded.pixels.width, decoded.pixels.height, request.budget);
  reply.image_width = decoded.pixels.width;
  reply.image_height = decoded.pixels.height;
  reply.animated = decoded.animated;
  reply.transparent = decoded.transparent;
  const Pixels resized = resize(std::move(decoded.pixels), size.width, size.height);
  if (resized.bytes() > request.output_bytes) refuse(Fault::kDamaged, sniff(input));
  std::memcpy(output, resized.rgb.get(), resized.bytes());
}

Reply work_or_refuse(Bytes input, const Request& request, uint8_t* output) {
  Reply reply;
  try {
    work(input, request, reply, output);
  } catch (const Refused& refused) {
    reply.refusal = refused.refusal();
  } catch (const std::bad_alloc&) {
    reply.refusal = {.fault = Fault::kNoMemory, .kind = sniff(input)};
  } catch (...) {
    reply.refusal = {.fault = Fault::kDamaged, .kind = sniff(input)};
  }
  return reply;
}

}  // namespace

int run_worker(int, char** argv) {
  size_t output_size = 0;
  Page* page = open_page(output_size);
  if (page == nullptr) {
    std::fprintf(stderr,
                 "%s: decodes pictures for slipstream, which starts it by itself; there is nothing to run\n",
                 argv[0]);
    return static_cast<int>(WorkerExit::kNotStartedByUs);
  }
  const Request request = page->request;
  if (request.version != kProtocolVersion) end(WorkerExit::kWrongVersion);
  const size_t input_size = file_size(kInputDescriptor);
  if (input_size == 0 || input_size != request.input_bytes || !is_budget(request.budget) ||
      request.output_bytes > output_size - kPixelOffset) {
    end(WorkerExit::kWrongVersion);
  }
  const void* input = map(kInputDescriptor, input_size, PROT_READ);
  const SandboxLimits limits{.memory_bytes = request.limits.worker_memory(),
                             .cpu_seconds = request.cpu_seconds,
                             .parent = request.parent};
  if (input == nullptr || !enter_sandbox(limits)) end(WorkerExit::kNoSandbox);

  auto* output = reinterpret_cast<uint8_t*>(page) + kPixelOffset;
  page->reply = work_or_refuse({static_cast<const std::byte*>(input), input_size}, request, output);
  std::atomic_ref(page->reply.mark).store(kReplyMark, std::memory_order_release);  // after all the rest
  end(WorkerExit::kReplied);
}

}  // namespace slip::media
