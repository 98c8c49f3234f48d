// generate: one prompt in, one answer out (or a file of prompts, see generate_batch.h). A client of the
// engine: it submits a request, prints what comes back and looks for Ctrl-C between steps.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/draft_colours.h"
#include "cli/drafters.h"
#include "cli/generate_answer.h"
#include "cli/generate_batch.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/statistics.h"
#include "cli/text_input.h"
#include "engine/engine.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;

/// Whether the prompt becomes a chat turn: where the model knows turns, unless told otherwise.
bool talks(const GenerateOptions& options, const LoadedModel& model) {
  if (options.ids || options.raw) return false;
  if (has_turns(*model.tokenizer)) return true;
  if (!options.conversation.system.empty() || options.conversation.thinking()) {
    fail_usage("{}: the tokenizer has no chat turns; leave out --system and --think", model.checkpoint->path);
  }
  return false;
}

std::vector<int> encode_prompt(const GenerateOptions& options, const LoadedModel& model,
                               const std::string& text, bool chat) {
  if (options.ids) return parse_ids(text, model.config().vocab - 1);
  if (!chat) return model.tokenizer->encode(text, {.specials = true, .add_bos = true});
  std::vector<text::Turn> turns;
  if (!options.conversation.system.empty())
    turns.push_back({text::Role::kSystem, options.conversation.system});
  turns.push_back({text::Role::kUser, text});
  return text::encode_chat(*model.tokenizer, turns, model.chat.prompt(options.conversation.thinking()));
}

/// Runs the request to its end, or to Ctrl-C.
void answer_request(engine::Engine& engine, engine::Request request, Answer& answer) {
  request.sink = [&answer](const engine::Delta& delta) { answer.take(delta); };
  const InterruptGuard guard;
  const uint64_t id = engine.submit(std::move(request));
  while (engine.step()) {
    if (guard.interrupted() || answer.failed()) engine.cancel(id);
  }
}

/// What is used, before the answer.
std::string announcement(const GenerateOptions& options, const LoadedModel& model, const Drafters& drafters,
                         bool without_turns) {
  std::string text;
  if (without_turns) text += "the tokenizer has no chat turns: the prompt is continued as it stands\n";
  text += fmt::format("device: {}\ndrafting: {}\n", device_text(model), drafters.description);
  if (options.show_drafts && !options.json) {
    text += stdout_is_terminal() ? colour_legend(options.verbose) + "\n"
                                 : "--show-drafts: the output is no terminal, so nothing is coloured\n";
  }
  return text;
}

/// How it went, after it.
std::string closing(const SpeedReport& report, const Drafters& drafters) {
  std::string text = statistics_text(report) + "\n";
  if (drafters.speculator == nullptr) return text;
  const std::string speculation = speculation_text(report.stats.speculation);
  if (!speculation.empty()) text += fmt::format("drafting: {}\n", speculation);
  for (const std::string& failure : drafters.speculator->failures()) text += failure + "\n";
  return text;
}

void report_answer(const GenerateOptions& options, const Answer& answer, const LoadedModel& model,
                   const Drafters& drafters, uint64_t seed) {
  if (!options.json && options.quiet) return;
  const SpeedReport report = measure(*model.backend, answer.stats());
  if (!options.quiet) {
    if (answer.hidden() > 0)
      write_err(fmt::format("{} of thoughts are not shown; --show-thinking on shows them\n",
                            bytes_text(answer.hidden())));
    write_err(closing(report, drafters));
  }
  if (!options.json) return;
  ordered_json out = answer.json();
  out["seed"] = seed;
  out["statistics"] = statistics_json(report);
  write_out(out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

int run_generate(const Arguments& args) {
  GenerateOptions options;
  if (!parse_generate(args, options)) return kExitOk;
  const std::string chosen = use_default_model(options.model);
  if (options.batch()) return generate_batch(options, chosen);
  const std::string folder = model_folder(options.model);
  const std::string text = read_text({options.prompt, options.file}, "-p PROMPT, -f FILE or a pipe");

  LoadedModel model = open_model(folder, !options.ids);
  const bool chat = talks(options, model);
  engine::Request request =
      make_request(model, options.sampling, options.lengths, encode_prompt(options, model, text, chat));
  require_context(options.lengths, model.config(), request.prompt.size());
  const uint64_t seed = request.sampling.seed;
  Drafters drafters = open_drafters(options.draft, options.model.model, folder, *model.checkpoint);
  if (!options.quiet) write_err(chosen);
  load_weights(model, options.backend);
  load_drafters(drafters, options.draft, *model.backend, 1);
  if (!options.quiet)
    write_err(announcement(options, model, drafters, !chat && !options.raw && !options.ids));

  engine::Engine engine(*model.backend, {.context = options.lengths.context, .sequences = 1},
                        drafters.speculator.get());
  Answer answer(options, model.tokenizer ? &*model.tokenizer : nullptr, chat);
  request.text = answer.stream();
  request.stop_strings = options.stops;
  answer_request(engine, std::move(request), answer);
  answer.end();
  report_answer(options, answer, model, drafters, seed);
  return answer.cancelled() ? kExitInterrupted : kExitOk;
}

}  // namespace

const Command generate_command{"generate", "Write text with a model", run_generate};

}  // namespace slip::cli
