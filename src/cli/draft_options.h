// The options of speculation, shared by every command that decodes: which drafters, how deep.
#pragma once

#include <string>
#include <vector>

#include "cli/parser.h"

namespace slip::cli {

struct DraftOptions {
  std::vector<std::string> models;  // folders or names; an assistant, a DFlash drafter, or one of each
  std::string kind = "auto";        // auto, mtp, dflash, suffix, none
  std::string depth = "auto";       // or guesses per round
  std::string bits = "auto";        // auto, 4, 8, as-is
  std::string position = "p-1";     // of an assistant's queries

  /// -1 = by measurement.
  int fixed_depth() const;
};

/// Adds --draft-model, --draft-kind, --draft-depth, --draft-bits and --draft-position.
void add_draft_options(Parser& parser, DraftOptions& options);
/// What can be said without a model. Throws Error(kUsage).
void check_draft_options(const DraftOptions& options);

}  // namespace slip::cli
