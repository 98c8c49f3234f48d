#include "cli/commands/generate_options.h"

#include "base/error.h"
#include "cli/flags/parser.h"

namespace slip::cli {
namespace {

constexpr int kMostStops = 64;
constexpr int kMostParallel = 1024;

void add_input_options(Parser& parser, GenerateOptions& options) {
  parser.group("Input");
  add_model_option(parser, options.model);
  parser.text({"-p,--prompt", "TEXT", "what to say to the model; else -f, else the standard input"},
              options.prompt);
  parser.text({"-f,--file", "FILE", "read the prompt from a file; - is the standard input"}, options.file);
  add_conversation_options(parser, options.conversation);
  parser.flag("--raw", options.raw, "continue the text as it stands, without chat turns");
  parser.flag("--ids", options.ids, "prompt and answer are token ids, for models without a tokenizer");
  add_image_files(parser, options.images);
  add_image_tokens(parser, options.images);
}

void add_output_options(Parser& parser, GenerateOptions& options) {
  parser.group("Output");
  add_answer_option(parser, options.lengths);
  parser.texts({"--stop", "TEXT", "end before this text; may be repeated"}, options.stops);
  parser.integer({"--logprobs", "N", "with --json: log probabilities of the N likeliest tokens"}, 0,
                 sample::kMaxTopLogprobs, options.sampling.logprobs);
  parser.flag("--json", options.json, "print one JSON object at the end instead of streaming text");
  parser.flag("-q,--quiet", options.quiet, "no settings and statistics on stderr");
  parser.flag("-v,--verbose", options.verbose, "more about what happens");
}

void add_batch_options(Parser& parser, GenerateOptions& options) {
  parser.text({"--prompts", "FILE", "lines of JSON with a \"prompt\" or \"messages\" each; see docs/cli.md"},
              options.prompts);
  parser.text({"--output", "FILE", "where the lines of answers go (default: the standard output)"},
              options.output);
  parser.integer({"--parallel", "N", "prompts to work on at a time (default 8)"}, 1, kMostParallel,
                 options.parallel);
}

void check_batch(const GenerateOptions& options) {
  if (!options.batch()) {
    if (options.output || options.parallel)
      fail_usage("--output and --parallel belong to --prompts FILE; add it or leave them out");
    return;
  }
  if (options.prompt || options.file) fail_usage("--prompts FILE has the prompts; leave out -p and -f");
  if (!options.images.files.empty())
    fail_usage("with --prompts every line names its \"images\"; leave out --image");
  if (options.raw || options.ids || options.json || options.show_drafts || options.sampling.logprobs) {
    fail_usage(
        "--prompts reads and writes lines of JSON; leave out --raw, --ids, --json, --logprobs and "
        "--show-drafts");
  }
  if (!options.conversation.system.empty() || options.conversation.asks_to_think())
    fail_usage("with --prompts every line says how it starts; leave out --system and --think");
}

void check_single(const GenerateOptions& options) {
  const bool talks = !options.conversation.system.empty() || options.conversation.asks_to_think();
  if (options.raw && talks) fail_usage("--system and --think need chat turns; leave out --raw, or those two");
  if (options.ids && (options.raw || talks || !options.stops.empty() || !options.images.files.empty())) {
    fail_usage("--ids knows no text and no pictures; leave out --raw, --system, --think, --stop and --image");
  }
  if (options.sampling.logprobs && !options.json) fail_usage("--logprobs are printed with --json; add it");
  if (options.show_drafts && options.json)
    fail_usage("--show-drafts colours text; with --json there is none, leave one of them out");
}

}  // namespace

bool parse_generate(const Arguments& args, GenerateOptions& options) {
  Parser parser(generate_command, "[-m MODEL] -p PROMPT [OPTIONS]");
  add_input_options(parser, options);
  add_output_options(parser, options);
  add_batch_options(parser, options);
  add_sampling_options(parser, options.sampling);
  parser.group("Speculation (changes the speed, never the text)");
  add_draft_options(parser, options.draft);
  parser.flag("--show-drafts", options.show_drafts, "colour accepted guesses; with -v also rejected ones");
  parser.group("Running");
  add_backend_options(parser, options.backend);
  add_context_option(parser, options.lengths);
  parser.footer("Ctrl-C ends the answer and prints the statistics (exit code 130); a second one kills.");
  if (!parser.parse(args)) return false;

  validate(options.draft);
  check_batch(options);
  check_single(options);
  if (options.stops.size() > kMostStops) fail_usage("--stop may be given {} times at most", kMostStops);
  for (const std::string& stop : options.stops) {
    if (stop.empty()) fail_usage("--stop must not be empty");
  }
  return true;
}

}  // namespace slip::cli
