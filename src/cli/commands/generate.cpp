// generate: one prompt in, one answer out (or a file of prompts, see generate_batch.h).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands/answer_printer.h"
#include "cli/commands/command.h"
#include "cli/commands/generate_batch.h"
#include "cli/commands/generate_options.h"
#include "cli/commands/loading.h"
#include "cli/commands/pictures.h"
#include "cli/commands/pulling.h"
#include "cli/terminal/draft_colours.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/report_text.h"
#include "cli/terminal/text_input.h"
#include "media/worker_program.h"
#include "session/model.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;
using session::Model;
using session::ReplyForm;

/// Whether the prompt becomes a chat turn: where the model knows turns, unless told otherwise.
ReplyForm form_of(const GenerateOptions& options, const Model& model) {
  if (options.ids) return ReplyForm::kTokens;
  if (options.raw) return ReplyForm::kText;
  if (model.is_chat()) return ReplyForm::kChat;
  if (!options.conversation.system.empty() || options.conversation.asks_to_think()) {
    fail_usage("{}: the tokenizer has no chat turns; leave out --system and --think",
               model.checkpoint().path);
  }
  return ReplyForm::kText;
}

session::Prompt make_prompt(const GenerateOptions& options, const Model& model, const std::string& text,
                            ReplyForm form, std::span<const session::Picture> pictures) {
  if (form == ReplyForm::kTokens) return session::Prompt(parse_ids(text, model.config().vocab - 1));
  if (form == ReplyForm::kText) return model.raw(raw_with_pictures(text, pictures.size()), {}, pictures);
  text::Conversation conversation;
  if (!options.conversation.system.empty())
    conversation.turns.push_back({text::Role::kSystem, options.conversation.system});
  conversation.turns.push_back(turn_with_pictures(text, pictures.size()));
  return model.prompt(conversation, {.thinking = options.conversation.thinking()}, pictures);
}

/// What is used, before the answer.
std::string announcement(const GenerateOptions& options, const Model& model, ReplyForm form,
                         std::span<const session::Picture> pictures) {
  std::string text;
  if (form == ReplyForm::kText && !options.raw)
    text += "the tokenizer has no chat turns: the prompt is continued as it stands\n";
  text += settings_text(model);
  for (const session::Picture& picture : pictures) text += picture_text(picture) + "\n";
  if (options.show_drafts && !options.json) {
    text += stdout_is_terminal() ? colour_legend(options.verbose) + "\n"
                                 : "--show-drafts: the output is no terminal, so nothing is coloured\n";
  }
  return text;
}

/// How it went, after it.
std::string closing(const session::Report& report, Model& model) {
  std::string text = statistics_text(report) + "\n";
  if (!model.drafts()) return text;
  const std::string speculation = speculation_text(report.stats.speculation);
  if (!speculation.empty()) text += fmt::format("drafting: {}\n", speculation);
  for (const std::string& failure : model.drafter_failures()) text += failure + "\n";
  return text;
}

void report_answer(const GenerateOptions& options, const AnswerPrinter& answer, Model& model, uint64_t seed,
                   std::span<const session::Picture> pictures) {
  if (!options.json && options.quiet) return;
  const session::Report report = session::measure(model, answer.reply().stats);
  if (!options.quiet) {
    if (answer.hidden() > 0)
      write_err(fmt::format("{} of thoughts are not shown; --show-thinking on shows them\n",
                            bytes_text(answer.hidden())));
    if (!pictures.empty()) write_err(pictures_summary(pictures) + "\n");
    write_err(closing(report, model));
  }
  if (!options.json) return;
  ordered_json out = answer.json();
  out["seed"] = seed;
  if (!pictures.empty()) out["images"] = pictures_json(pictures);
  out["statistics"] = statistics_json(report);
  write_out(out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

int run_generate(const Arguments& args) {
  GenerateOptions options;
  if (!parse_generate(args, options)) return kExitOk;
  if (options.batch()) return generate_batch(options);
  const std::string text = read_text({options.prompt, options.file}, "-p PROMPT, -f FILE or a pipe");

  offer_pull(options.model);
  const auto model =
      Model::open(options.model.model, {.tokenizer = !options.ids,
                                        .chat_template = options.conversation.chat_template,
                                        .vision = {.decoder = {.worker = media::this_program()}}});
  const ReplyForm form = form_of(options, *model);
  const std::vector<session::Picture> pictures = look_at(*model, options.images.files, options.images.tokens);
  const session::Prompt prompt = make_prompt(options, *model, text, form, pictures);
  model->require_room(prompt.size(), options.lengths.context);
  engine::Request request = model->request(prompt, {.sampling = options.sampling,
                                                    .form = form,
                                                    .max_tokens = options.lengths.answer_limit(),
                                                    .stop_strings = options.stops});
  const uint64_t seed = request.sampling.seed;
  model->open_drafters(options.draft);
  if (!options.quiet) write_err(default_model_note(options.model));
  load_with_bar(*model, {.backend = options.backend,
                         .draft = options.draft,
                         .engine = {.context = options.lengths.context, .sequences = 1},
                         .vision = !pictures.empty(),
                         .picture_tokens = most_tokens_of(pictures)});
  if (!options.quiet) write_err(announcement(options, *model, form, pictures));

  AnswerPrinter answer(options, model->has_tokenizer() ? &model->tokenizer() : nullptr);
  {
    const InterruptGuard guard;
    PictureProgress progress(pictures);
    model->generate(std::move(request), answer, [&] {
      progress.update();
      return guard.interrupted();
    });
  }
  answer.end();
  report_answer(options, answer, *model, seed, pictures);
  return answer.reply().finish == engine::FinishReason::kCancelled ? kExitInterrupted : kExitOk;
}

}  // namespace

const Command generate_command{"generate", "Write text with a model", run_generate};

}  // namespace slip::cli
