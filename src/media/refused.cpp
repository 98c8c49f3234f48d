#include "media/refused.h"

namespace slip::media {
namespace {

constexpr std::string_view kReadKinds = "JPEG, PNG, WebP and GIF are read";

std::string too_large(const Refusal& refusal, const Limits& limits) {
  return fmt::format(
      "has {} x {} pixels, and at most {} a side and {} million in all are read; make it smaller",
      refusal.width, refusal.height, limits.side, limits.pixels / 1'000'000);
}

/// What is wrong with the file, and what to do, without the file's name.
std::string sentence(const Refusal& refusal, const Limits& limits) {
  const std::string_view kind = name_of(refusal.kind);
  switch (refusal.fault) {
    case Fault::kEmpty: return "is empty; send the picture's bytes";
    case Fault::kUnknownKind: return fmt::format("is no picture we know by its first bytes; {}", kReadKinds);
    case Fault::kUnsupportedKind:
      return fmt::format("is {}, which is not read as a picture; {}", kind, kReadKinds);
    case Fault::kUnsupportedForm:
      return fmt::format("is {} of a rare form that is not read; save it anew as an ordinary JPEG or PNG",
                         kind);
    case Fault::kCutOff:
      return fmt::format("is {} and ends before its picture does; fetch or save it again", kind);
    case Fault::kDamaged:
      return fmt::format("is {} and damaged, so it cannot be decoded; fetch or save it again", kind);
    case Fault::kTooManyBytes:
      return fmt::format("is larger than the {} MiB a file may have; make it smaller", limits.bytes >> 20);
    case Fault::kTooManyPixels:
    case Fault::kSideTooLong: return too_large(refusal, limits);
    case Fault::kTooManyScans:
      return fmt::format("is a progressive JPEG of more than {} scans; save it anew as an ordinary JPEG",
                         limits.scans);
    case Fault::kBadBase64: return "is not valid base64; encode the file's bytes again";
    case Fault::kBadUrl:
      return "is no URL that can be read; send data:image/png;base64,... with the picture's bytes";
    case Fault::kUrlNotAllowed:
      return "may not be read, or is not there; send the picture's bytes as a data: URL";
    case Fault::kNoMemory: return "needs more memory to decode than a picture may take; make it smaller";
    case Fault::kTooSlow: return "took longer to decode than a picture may; make it smaller or save it anew";
    case Fault::kDecoderDied:
      return fmt::format(
          "stopped its decoder ({}), so it is damaged or hostile; save it anew with another program", kind);
    case Fault::kCancelled: return "was not decoded, because the request was cancelled";
    case Fault::kNoWorker:
      return "cannot be decoded, because the worker program slipstream-media-worker is missing or of another "
             "version; install it again, or name it in the options";
    case Fault::kNoSandbox:
      return "cannot be decoded, because this system allows its decoder no sandbox (seccomp); allow it, or "
             "send no "
             "pictures";
    case Fault::kNotFetched:
      return "could not be fetched from its URL; check the URL, or send the picture's bytes as a data: URL";
    case Fault::kNone:
    case Fault::kCount: break;
  }
  return "cannot be decoded; save it anew with another program";
}

ErrorKind error_kind(Fault fault) {
  switch (fault) {
    case Fault::kNoMemory: return ErrorKind::kOutOfMemory;
    case Fault::kBadBase64:
    case Fault::kBadUrl:
    case Fault::kUrlNotAllowed: return ErrorKind::kUsage;
    case Fault::kNotFetched:
    case Fault::kTooSlow:
    case Fault::kCancelled:
    case Fault::kNoWorker:
    case Fault::kNoSandbox: return ErrorKind::kRuntime;
    default: return ErrorKind::kBadFile;
  }
}

}  // namespace

Refused::Refused(const Refusal& refusal, std::string_view name, const Limits& limits)
    : Error(error_kind(refusal.fault), fmt::format("{}: {}", name, sentence(refusal, limits))),
      refusal_(refusal) {}

std::string_view openai_code(Fault fault) {
  switch (fault) {
    case Fault::kEmpty: return "empty_image_file";
    case Fault::kUnknownKind: return "invalid_image_format";
    case Fault::kUnsupportedKind: return "unsupported_image_media_type";
    case Fault::kUnsupportedForm: return "invalid_image_mode";
    case Fault::kBadBase64: return "invalid_base64_image";
    case Fault::kBadUrl:
    case Fault::kUrlNotAllowed: return "invalid_image_url";
    case Fault::kNotFetched: return "failed_to_download_image";
    case Fault::kCutOff:
    case Fault::kDamaged:
    case Fault::kDecoderDied: return "image_parse_error";
    case Fault::kTooManyBytes: return "image_file_too_large";
    case Fault::kTooManyPixels:
    case Fault::kSideTooLong:
    case Fault::kTooManyScans:
    case Fault::kNoMemory:
    case Fault::kTooSlow: return "image_too_large";
    case Fault::kNone:
    case Fault::kCancelled:
    case Fault::kNoWorker:
    case Fault::kNoSandbox:
    case Fault::kCount: break;
  }
  return {};
}

}  // namespace slip::media
