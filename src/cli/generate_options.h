// The options of `generate`, parsed and checked as far as that needs no model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/backend_options.h"
#include "cli/command.h"
#include "cli/draft_options.h"
#include "cli/model_options.h"
#include "cli/sampling_options.h"

namespace slip::cli {

struct GenerateOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::optional<std::string> prompt, file;
  std::string system;
  bool raw = false;    // the text goes to the model as it is, no chat turns around it
  bool ids = false;    // prompt and answer are token ids; no tokenizer is needed
  int max_tokens = 0;  // 0 = not given
  std::vector<std::string> stops;
  bool json = false;
  bool quiet = false;
  bool verbose = false;      // with show_drafts: rejected guesses too
  bool show_drafts = false;  // colours
  DraftOptions draft;
  BackendOptions backend;
  int context = 0;  // 0 = what the prompt and the answer need
};

/// False when help was asked for and has been printed.
bool parse_generate(const Arguments& args, GenerateOptions& options);

}  // namespace slip::cli
