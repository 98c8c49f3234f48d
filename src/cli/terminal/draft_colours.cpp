#include "cli/terminal/draft_colours.h"

#include <fmt/format.h>

#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

constexpr const char* kPlain = "\x1b[0m";
constexpr const char* kRejected = "\x1b[2;9;31m";  // dim, struck out, red

/// Green for an assistant, cyan for a block drafter, yellow for text that was seen before.
const char* colour_of(std::string_view drafter) {
  if (drafter == "suffix") return "\x1b[33m";
  return drafter == "dflash" ? "\x1b[36m" : "\x1b[32m";
}

}  // namespace

std::string painted(const engine::Delta& delta, std::string_view text,
                    const std::function<std::string(int)>& rejected) {
  std::string out;
  // Guesses that were wrong stand before the token that took their place.
  if (rejected && !delta.rejected.empty()) {
    out += kRejected;
    for (const int token : delta.rejected) out += escaped(rejected(token));
    out += kPlain;
  }
  if (text.empty()) return out;
  if (!delta.drafted()) return out.append(text);
  return out.append(colour_of(delta.drafter)).append(text).append(kPlain);
}

std::string colour_legend(bool with_rejected) {
  std::string text =
      fmt::format("{}mtp{}, {}dflash{}, {}suffix{}: accepted guesses; plain: the model's own",
                  colour_of("mtp"), kPlain, colour_of("dflash"), kPlain, colour_of("suffix"), kPlain);
  if (with_rejected) text += fmt::format("; {}rejected{}", kRejected, kPlain);
  return text;
}

}  // namespace slip::cli
