// The options of speculation, shared by every command that decodes: which drafters, how deep.
#pragma once

#include "cli/flags/parser.h"
#include "session/options.h"

namespace slip::cli {

using session::DraftOptions;

/// Adds --draft-model, --draft-kind, --draft-depth, --draft-bits and --draft-position.
void add_draft_options(Parser& parser, DraftOptions& options);
/// Adds --draft-depth alone.
void add_draft_depth(Parser& parser, DraftOptions& options);

}  // namespace slip::cli
