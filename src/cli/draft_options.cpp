#include "cli/draft_options.h"

#include "base/error.h"
#include "speculate/drafter.h"

namespace slip::cli {

void add_draft_options(Parser& parser, DraftOptions& options) {
  parser.texts(
      {"--draft-model", "MODEL", "an assistant or a DFlash drafter (default: the model's assistant)"},
      options.models);
  parser.choice({"--draft-kind", "KIND", "auto, mtp, dflash, suffix or none (default auto)"},
                {"auto", "mtp", "dflash", "suffix", "none"}, options.kind);
  parser.text({"--draft-depth", "N", "guesses per round, or auto: as many as pay (default)"}, options.depth);
  parser.choice({"--draft-bits", "N", "round a bf16 drafter to 4 or 8 bits, as-is, or auto: like the model"},
                {"auto", "4", "8", "as-is"}, options.bits);
  parser.choice({"--draft-position", "P", "position of an assistant's queries: p-1 (default) or p"},
                {"p-1", "p"}, options.position);
}

int DraftOptions::fixed_depth() const {
  if (depth == "auto") return -1;
  return static_cast<int>(parse_integer("--draft-depth", depth, 0, speculate::kMostDepth));
}

void check_draft_options(const DraftOptions& options) {
  options.fixed_depth();
  if (options.models.size() > 2) {
    fail_usage("--draft-model may be given twice at most: an assistant and a DFlash drafter");
  }
  if (!options.models.empty() && (options.kind == "none" || options.kind == "suffix")) {
    fail_usage("--draft-kind {} needs no model; leave out --draft-model or change the kind", options.kind);
  }
  if (options.kind == "dflash" && options.models.empty()) {
    fail_usage("--draft-kind dflash needs --draft-model with the folder or name of a DFlash drafter");
  }
}

}  // namespace slip::cli
