// Refused: the error of a file that is not read, with a fault that the server can turn into an API's own
// code.
//
// The decode worker is not trusted, so it sends a Refusal: numbers only. The sentence is written here, in the
// parent, from those numbers. No text of a decoder, no pointer and no path of ours can get into a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "media/kind.h"
#include "media/limits.h"

namespace slip::media {

enum class Fault : uint32_t {
  kNone,
  kEmpty,            // no bytes at all
  kUnknownKind,      // nothing we know begins like this
  kUnsupportedKind,  // known, and not read
  kUnsupportedForm,  // a rare form of a kind that is read, such as lossless JPEG
  kCutOff,           // ends before the picture does
  kDamaged,
  kTooManyBytes,
  kTooManyPixels,
  kSideTooLong,
  kTooManyScans,
  kBadBase64,
  kBadUrl,         // no URL we can read
  kUrlNotAllowed,  // by the operator's rules, or not there
  kNoMemory,       // the worker's memory limit
  kTooSlow,        // the time limit
  kDecoderDied,    // the worker was killed by a signal or by its sandbox
  kCancelled,      // by the caller
  kNoWorker,       // ours: the worker program is missing or of another version
  kNoSandbox,      // ours: the system refuses the worker's sandbox
  kNotFetched,     // its URL leads to no answer, to an error, or to one that takes too long
  kCount,          // one past the last
};

/// Trivially copyable: it travels in shared memory.
struct Refusal {
  Fault fault = Fault::kNone;
  Kind kind = Kind::kUnknown;
  int32_t width = 0;  // where they were read before the fault, else 0
  int32_t height = 0;
};

class Refused : public Error {
 public:
  /// `name` is the file as its sender named it.
  Refused(const Refusal& refusal, std::string_view name, const Limits& limits = {});
  Fault fault() const { return refusal_.fault; }
  const Refusal& refusal() const { return refusal_; }

 private:
  Refusal refusal_;
};

/// The `code` of an OpenAI error object for this fault, such as "invalid_image_format". Empty for faults that
/// are ours and not the sender's.
std::string_view openai_code(Fault fault);

}  // namespace slip::media
