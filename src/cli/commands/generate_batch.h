// generate --prompts: many prompts through one engine, several at a time, for evaluation. One line of JSON
// in, one line out, in the same order whatever ends first; a line is written as soon as all before it are.
#pragma once

#include <string>

#include "cli/commands/generate_options.h"

namespace slip::cli {

/// Returns the exit code: 4 when a prompt failed, 130 after Ctrl-C (what was begun then has "finish": "cancelled").
int generate_batch(const GenerateOptions& options);

}  // namespace slip::cli
