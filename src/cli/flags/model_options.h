// The option that names a model, shared by every command that takes one: a checkpoint folder, or the name of
// a model in the Hugging Face cache. Without one it is the demonstration model.
#pragma once

#include <string>

#include "cli/flags/parser.h"

namespace slip::cli {

struct ModelOptions {
  std::string model;
  bool pull = false;  // download it when it is not here, without a question
};

/// Adds -m/--model and --pull.
void add_model_option(Parser& parser, ModelOptions& options);

/// The sentence that says that the demonstration model is used; empty when another was named.
std::string default_model_note(const ModelOptions& options);

/// What -m named, or the demonstration model, as a path. Throws Error(kBadFile) when there is no such model.
std::string model_folder(const ModelOptions& options);

}  // namespace slip::cli
