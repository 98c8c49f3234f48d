// The options about pictures, shared by the commands that show a model some.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flags/parser.h"

namespace slip::cli {

struct ImageOptions {
  std::vector<std::string> files;
  std::optional<int>
      tokens;  // of each; media::kAutoBudget for auto, empty for what the model was published with

  /// What a step must be able to take; `own`: where nothing was asked for.
  int most_tokens(int own) const;
};

/// Adds --image.
void add_image_files(Parser& parser, ImageOptions& options);
/// Adds --image-tokens.
void add_image_tokens(Parser& parser, ImageOptions& options);

}  // namespace slip::cli
