// Rendered: a prompt as a chat template wrote it, with the origin of every byte. A byte is the template's
// when it stands in the template's own literals; what a user, a tool or a schema wrote is foreign, wherever
// the template put it and whatever was done to it on the way.
//
// Why: a control token may exist only where all its bytes are the template's. `<|turn>` typed by a user, or
// joined from a literal and a user's text, stays text.
//
// Invariant: the spans cover the bytes in order, none is empty, and neighbours differ in origin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace slip::text {

enum class Origin : uint8_t { kTemplate, kForeign };

struct Rendered {
  struct Span {
    size_t end = 0;  // one past its last byte; it begins where the one before ends
    Origin origin = Origin::kForeign;
    bool operator==(const Span&) const = default;
  };

  std::string bytes;
  std::vector<Span> spans;

  void append(std::string_view text, Origin origin);
  bool operator==(const Rendered&) const = default;
};

/// Token ids of a rendered prompt. Special tokens spelled by the template become themselves; the text between
/// them is encoded as one text, since BPE merges across origins. Throws Error(kUsage) when it is too long.
std::vector<int> encode(const Tokenizer& tokenizer, const Rendered& prompt);

}  // namespace slip::text
