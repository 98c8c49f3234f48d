// The options of `chat`, parsed and checked as far as that needs no model.
#pragma once

#include "cli/backend_options.h"
#include "cli/command.h"
#include "cli/conversation_options.h"
#include "cli/draft_options.h"
#include "cli/model_options.h"
#include "cli/requests.h"
#include "cli/sampling_options.h"

namespace slip::cli {

struct ChatOptions {
  ModelOptions model;
  ConversationOptions conversation;
  LengthOptions lengths;
  SamplingOptions sampling;
  DraftOptions draft;
  BackendOptions backend;
  bool quiet = false;
};

/// False when help was asked for and has been printed.
bool parse_chat(const Arguments& args, ChatOptions& options);

}  // namespace slip::cli
