#include "text/rendered.h"

#include <algorithm>

namespace slip::text {

void Rendered::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  bytes += text;
  if (spans.empty() || spans.back().origin != origin) {
    spans.push_back({bytes.size(), origin});
  } else {
    spans.back().end = bytes.size();
  }
}

std::vector<int> encode(const Tokenizer& tokenizer, const Rendered& prompt) {
  return tokenizer.encode(prompt.bytes, {.specials = true, .origins = &prompt});
}

}  // namespace slip::text
