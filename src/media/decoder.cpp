#include "media/decoder.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "media/child.h"
#include "media/media_file.h"
#include "media/protocol.h"
#include "media/shared_file.h"

namespace slip::media {
namespace {

size_t most_pixel_bytes(int budget) {
  const int most = budget == kAutoBudget ? kLargestBudget : budget;
  return size_t{3} * kBlockSide * kBlockSide * static_cast<size_t>(most);
}

SharedFile make_output(Bytes input, const DecoderOptions& options, int budget) {
  const size_t room = most_pixel_bytes(budget);
  SharedFile output = SharedFile::of_size(kPixelOffset + room);
  Page page;
  page.request.parent = ::getpid();
  page.request.budget = budget;
  page.request.cpu_seconds = static_cast<uint32_t>(options.cpu_limit.count());
  page.request.input_bytes = input.size();
  page.request.output_bytes = room;
  page.request.limits = options.limits;
  std::memcpy(output.data(), &page, sizeof page);
  return output;
}

/// What went wrong, from how the worker ended. kNone when it replied.
Fault fault_of(const Child::Outcome& outcome) {
  switch (outcome.end) {
    case Child::End::kCancelled: return Fault::kCancelled;
    case Child::End::kTimedOut: return Fault::kTooSlow;
    case Child::End::kSignal: return outcome.code == SIGXCPU ? Fault::kTooSlow : Fault::kDecoderDied;
    case Child::End::kUnknown: return Fault::kNone;
    case Child::End::kExited: break;
  }
  switch (static_cast<WorkerExit>(outcome.code)) {
    case WorkerExit::kReplied: return Fault::kNone;
    case WorkerExit::kNoSandbox: return Fault::kNoSandbox;
    case WorkerExit::kWrongVersion: return Fault::kNoWorker;
    case WorkerExit::kNotStartedByUs: break;
  }
  return Fault::kDecoderDied;
}

/// The worker's reply with every number checked, or what stands for a reply that cannot be.
Reply checked(const Reply& reply, const Limits& limits) {
  Reply bad;
  bad.refusal.fault = Fault::kDecoderDied;
  const Refusal& refusal = reply.refusal;
  if (reply.mark != kReplyMark || refusal.fault >= Fault::kCount || refusal.kind >= Kind::kCount) return bad;
  if (refusal.width < 0 || refusal.height < 0) return bad;
  if (refusal.fault != Fault::kNone) return reply;
  const int64_t width = reply.image_width;
  const int64_t height = reply.image_height;
  const bool possible = width > 0 && height > 0 && width <= limits.side && height <= limits.side &&
                        static_cast<uint64_t>(width * height) <= limits.pixels;
  return possible ? reply : bad;
}

ImagePatches patches_from(const Reply& reply, const uint8_t* rgb, const ImageOptions& options) {
  const Fit size = fit(reply.image_width, reply.image_height, options.budget);
  ImagePatches patches = cut_patches(rgb, size.width, size.height, options.side);
  patches.image_width = reply.image_width;
  patches.image_height = reply.image_height;
  patches.budget = size.budget;
  patches.shrunk = size.shrunk;
  patches.animated = reply.animated != 0;
  patches.transparent = reply.transparent != 0;
  return patches;
}

/// What needs no decoder to refuse.
Fault fault_of_bytes(Bytes bytes, Kind kind, const Limits& limits) {
  if (bytes.empty()) return Fault::kEmpty;
  if (bytes.size() > limits.bytes) return Fault::kTooManyBytes;
  if (kind == Kind::kUnknown) return Fault::kUnknownKind;
  return is_read(kind) ? Fault::kNone : Fault::kUnsupportedKind;
}

}  // namespace

class Decoder::Turn {
 public:
  Turn(Decoder& decoder, std::stop_token stop) : decoder_(decoder) {
    std::unique_lock lock(decoder_.mutex_);
    taken_ = decoder_.freed_.wait(lock, stop, [&] { return decoder_.running_ < decoder_.options_.at_once; });
    decoder_.running_ += taken_;
  }
  ~Turn() {
    if (!taken_) return;
    {
      const std::lock_guard lock(decoder_.mutex_);
      --decoder_.running_;
    }
    decoder_.freed_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool taken() const { return taken_; }

 private:
  Decoder& decoder_;
  bool taken_ = false;
};

Decoder::Decoder(DecoderOptions options) : options_(std::move(options)) {
  if (options_.at_once <= 0)
    options_.at_once = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

ImagePatches Decoder::decode(Bytes bytes, const std::string& name, const ImageOptions& options,
                             std::stop_token stop) {
  if (!is_budget(options.budget)) {
    fail_usage("{}: {} is no budget of soft tokens; use 70, 140, 280, 560, 1120 or auto", name,
               options.budget);
  }
  const Kind kind = sniff(bytes);
  Refusal refusal{.fault = fault_of_bytes(bytes, kind, options_.limits)};
  ImagePatches patches;
  if (refusal.fault == Fault::kNone) refusal = run_worker_on(bytes, options, stop, patches);
  refusal.kind = kind;  // our own look at the bytes, not the worker's
  if (refusal.fault != Fault::kNone) throw Refused(refusal, name, options_.limits);
  return patches;
}

Refusal Decoder::run_worker_on(Bytes bytes, const ImageOptions& options, std::stop_token stop,
                               ImagePatches& patches) {
  // Looked for only now, since a program that is sent no pictures needs none.
  const WorkerCommand worker = options_.worker.program.empty() ? installed_worker() : options_.worker;
  const Turn turn(*this, stop);
  if (!turn.taken()) return {.fault = Fault::kCancelled};
  const SharedFile input = SharedFile::holding(bytes);
  const SharedFile output = make_output(bytes, options_, options.budget);
  Child child(worker, input.descriptor(), output.descriptor());
  if (!child.started()) return {.fault = Fault::kNoWorker};
  const auto deadline = std::chrono::steady_clock::now() + options_.time_limit;
  const Fault end = fault_of(child.wait(deadline, stop));
  if (end != Fault::kNone) return {.fault = end};

  Page page;  // a copy: the worker has ended, and what was checked must be what is used
  std::memcpy(static_cast<void*>(&page), output.data(), sizeof page);
  const Reply reply = checked(page.reply, options_.limits);
  if (reply.refusal.fault == Fault::kNone) {
    patches = patches_from(reply, reinterpret_cast<const uint8_t*>(output.data()) + kPixelOffset, options);
  }
  return reply.refusal;
}

ImagePatches Decoder::decode_file(const std::string& path, const ImageOptions& options,
                                  std::stop_token stop) {
  const std::vector<std::byte> bytes = read_media_file(path, options_.limits, stop);
  return decode(bytes, path, options, stop);
}

}  // namespace slip::media
