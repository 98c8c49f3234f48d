// The options of `chat`, parsed and checked as far as that needs no model.
#pragma once

#include "cli/commands/command.h"
#include "cli/flags/backend_options.h"
#include "cli/flags/conversation_options.h"
#include "cli/flags/draft_options.h"
#include "cli/flags/image_options.h"
#include "cli/flags/length_options.h"
#include "cli/flags/model_options.h"
#include "cli/flags/sampling_options.h"

namespace slip::cli {

struct ChatOptions {
  ModelOptions model;
  ConversationOptions conversation;
  ImageOptions images;  // of the first message
  LengthOptions lengths;
  session::SamplingChoice sampling;
  DraftOptions draft;
  BackendOptions backend;
  bool quiet = false;
};

/// False when help was asked for and has been printed.
bool parse_chat(const Arguments& args, ChatOptions& options);

}  // namespace slip::cli
