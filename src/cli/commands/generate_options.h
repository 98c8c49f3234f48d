// The options of `generate`, parsed and checked as far as that needs no model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/command.h"
#include "cli/flags/backend_options.h"
#include "cli/flags/conversation_options.h"
#include "cli/flags/draft_options.h"
#include "cli/flags/image_options.h"
#include "cli/flags/length_options.h"
#include "cli/flags/model_options.h"
#include "cli/flags/sampling_options.h"

namespace slip::cli {

struct GenerateOptions {
  ModelOptions model;
  session::SamplingChoice sampling;
  std::optional<std::string> prompt, file;
  ImageOptions images;
  ConversationOptions conversation;
  bool raw = false;  // the text goes to the model as it is, no chat turns around it
  bool ids = false;  // prompt and answer are token ids; no tokenizer is needed
  LengthOptions lengths;
  std::vector<std::string> stops;
  bool json = false;
  bool quiet = false;
  bool verbose = false;      // with show_drafts: rejected guesses too
  bool show_drafts = false;  // colours
  DraftOptions draft;
  BackendOptions backend;

  // Many prompts instead of one.
  std::optional<std::string> prompts, output;  // files of JSON lines
  std::optional<int> parallel;
  bool batch() const { return prompts.has_value(); }
};

/// False when help was asked for and has been printed.
bool parse_generate(const Arguments& args, GenerateOptions& options);

}  // namespace slip::cli
