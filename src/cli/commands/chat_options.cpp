#include "cli/commands/chat_options.h"

#include "cli/flags/parser.h"

namespace slip::cli {

bool parse_chat(const Arguments& args, ChatOptions& options) {
  Parser parser(chat_command, "[-m MODEL] [OPTIONS]");
  parser.group("Conversation");
  add_model_option(parser, options.model);
  add_conversation_options(parser, options.conversation);
  add_image_files(parser, options.images);
  add_image_tokens(parser, options.images);
  add_answer_option(parser, options.lengths);
  parser.flag("-q,--quiet", options.quiet, "only the replies: no settings, no line of figures after each");
  add_sampling_options(parser, options.sampling);
  parser.group("Speculation (changes the speed, never the text)");
  add_draft_options(parser, options.draft);
  parser.group("Running");
  add_backend_options(parser, options.backend);
  add_context_option(parser, options.lengths);
  parser.footer(
      "Type /help inside for its commands. Without a terminal every line of the input is a message.");
  if (!parser.parse(args)) return false;
  validate(options.draft);
  return true;
}

}  // namespace slip::cli
