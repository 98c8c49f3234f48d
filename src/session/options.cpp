#include "session/options.h"

#include "base/error.h"

namespace slip::session {

const char* name_of(Activations activations) {
  switch (activations) {
    case Activations::kAuto: return "auto";
    case Activations::k16: return "16";
    case Activations::k11: return "11";
    case Activations::k8: return "8";
    case Activations::kFloat: return "float";
  }
  return "unknown";
}

const char* name_of(Drafting drafting) {
  switch (drafting) {
    case Drafting::kAuto: return "auto";
    case Drafting::kMtp: return "mtp";
    case Drafting::kDflash: return "dflash";
    case Drafting::kSuffix: return "suffix";
    case Drafting::kNone: return "none";
  }
  return "unknown";
}

void validate(const DraftOptions& options) {
  if (options.depth > speculate::kMostDepth)
    fail_usage("at most {} guesses fit into a round, not {}", speculate::kMostDepth, options.depth);
  if (options.models.size() > 2)
    fail_usage("--draft-model may be given twice at most: an assistant and a DFlash drafter");
  const bool no_network = options.kind == Drafting::kNone || options.kind == Drafting::kSuffix;
  if (!options.models.empty() && no_network) {
    fail_usage("--draft-kind {} needs no model; leave out --draft-model or change the kind",
               name_of(options.kind));
  }
  if (options.kind == Drafting::kDflash && options.models.empty())
    fail_usage("--draft-kind dflash needs --draft-model with the folder or name of a DFlash drafter");
}

}  // namespace slip::session
