#include "cli/flags/draft_options.h"

#include "speculate/drafter.h"

namespace slip::cli {

using session::DraftBits;
using session::Drafting;
using speculate::MtpPosition;

void add_draft_depth(Parser& parser, DraftOptions& options) {
  parser.parsed({"--draft-depth", "N", "guesses per round, or auto: as many as pay (default)"},
                [&options](const std::string& text) {
                  options.depth =
                      text == "auto"
                          ? -1
                          : static_cast<int>(parse_integer("--draft-depth", text, 0, speculate::kMostDepth));
                });
}

void add_draft_options(Parser& parser, DraftOptions& options) {
  parser.texts(
      {"--draft-model", "MODEL", "an assistant or a DFlash drafter (default: the model's assistant)"},
      options.models);
  parser.choice<Drafting>({"--draft-kind", "KIND", "auto, mtp, dflash, suffix or none (default auto)"},
                          {{"auto", Drafting::kAuto},
                           {"mtp", Drafting::kMtp},
                           {"dflash", Drafting::kDflash},
                           {"suffix", Drafting::kSuffix},
                           {"none", Drafting::kNone}},
                          options.kind);
  add_draft_depth(parser, options);
  parser.choice<DraftBits>(
      {"--draft-bits", "N", "round a bf16 drafter to 4 or 8 bits, as-is, or auto: like the model"},
      {{"auto", DraftBits::kAuto},
       {"4", DraftBits::k4},
       {"8", DraftBits::k8},
       {"as-is", DraftBits::kAsStored}},
      options.bits);
  parser.choice<MtpPosition>(
      {"--draft-position", "P", "position of an assistant's queries: p-1 (default) or p"},
      {{"p-1", MtpPosition::kLastKey}, {"p", MtpPosition::kNewestToken}}, options.position);
}

}  // namespace slip::cli
