// What the parent and its decode worker say to each other: one page in front of the shared pixels. The parent
// writes the Request before the worker starts; the worker writes the Reply and ends; only then does the
// parent read. Nothing of a Reply is believed before it was checked against the parent's own arithmetic.
//
// Both sides may be of different builds (an installed worker, a newer library), hence the version.
#pragma once

#include <cstdint>
#include <type_traits>

#include "media/limits.h"
#include "media/refused.h"

namespace slip::media {

/// Where the worker finds its files.
inline constexpr int kInputDescriptor = 3;   // sealed: the bytes of the item
inline constexpr int kOutputDescriptor = 4;  // a Page, then room for the resized pixels

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint64_t kRequestMark = 0x736C69704D656469;
inline constexpr uint64_t kReplyMark = 0x646F6E654D656469;

struct Request {
  uint64_t mark = kRequestMark;
  uint32_t version = kProtocolVersion;
  int32_t parent = 0;  // its process id
  int32_t budget = 0;
  uint32_t cpu_seconds = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;  // room for pixels
  Limits limits;
};

struct Reply {
  uint64_t mark = 0;  // kReplyMark, written last
  Refusal refusal;
  int32_t image_width = 0;  // upright, before resizing
  int32_t image_height = 0;
  uint32_t animated = 0;
  uint32_t transparent = 0;
};

struct Page {
  Request request;
  Reply reply;
};
static_assert(std::is_trivially_copyable_v<Page>);

inline constexpr size_t kPixelOffset = 4096;
static_assert(sizeof(Page) <= kPixelOffset);

/// How a worker ends. 0 is a Reply, good or bad. The others lie beyond what runtimes end a broken program
/// with.
enum class WorkerExit : int { kReplied = 0, kNotStartedByUs = 1, kWrongVersion = 102, kNoSandbox = 103 };

}  // namespace slip::media
