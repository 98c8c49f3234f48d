// The option that names a model, shared by every command that takes one: a checkpoint folder, or the name of
// a model in the Hugging Face cache (checkpoint/hub.h says how it is found).
#pragma once

#include <string>

#include "cli/parser.h"

namespace slip::cli {

struct ModelOptions {
  std::string model;
};

/// Adds -m/--model; `has_default` when the command can do without (default_model.h).
void add_model_option(Parser& parser, ModelOptions& options, bool has_default = false);

/// What -m named, as a path. Throws Error: kUsage when it was not given, kBadFile when there is no such
/// model.
std::string model_folder(const ModelOptions& options);

}  // namespace slip::cli
