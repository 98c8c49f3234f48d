#include "cli/generate_options.h"

#include "base/error.h"
#include "cli/parser.h"

namespace slip::cli {
namespace {

constexpr int kMostTokens = 1 << 24;
constexpr int kMostStops = 64;

void add_input_options(Parser& parser, GenerateOptions& options, std::vector<std::string>& images) {
  parser.group("Input");
  add_model_option(parser, options.model);
  parser.text({"-p,--prompt", "TEXT", "what to say to the model; else -f, else the standard input"},
              options.prompt);
  parser.text({"-f,--file", "FILE", "read the prompt from a file; - is the standard input"}, options.file);
  parser.text({"--system,--system-prompt", "TEXT", "instructions that come before the prompt"},
              options.system);
  parser.flag("--raw", options.raw, "continue the text as it stands, without chat turns");
  parser.flag("--ids", options.ids, "prompt and answer are token ids, for models without a tokenizer");
  parser.texts({"--image", "FILE", "this build has no images yet"}, images);
}

void add_output_options(Parser& parser, GenerateOptions& options) {
  parser.group("Output");
  parser.integer({"-n,--max-tokens,--n-predict,--predict", "N", "tokens to write at most (default 8192)"}, 1,
                 kMostTokens, options.max_tokens);
  parser.texts({"--stop", "TEXT", "end before this text; may be repeated"}, options.stops);
  parser.integer({"--logprobs", "N", "with --json: log probabilities of the N likeliest tokens"}, 0,
                 sample::kMaxTopLogprobs, options.sampling.logprobs);
  parser.flag("--json", options.json, "print one JSON object at the end instead of streaming text");
  parser.flag("-q,--quiet", options.quiet, "no settings and statistics on stderr");
  parser.flag("-v,--verbose", options.verbose, "more about what happens");
}

}  // namespace

bool parse_generate(const Arguments& args, GenerateOptions& options) {
  std::vector<std::string> images;
  Parser parser(generate_command, "-m MODEL -p PROMPT [OPTIONS]");
  add_input_options(parser, options, images);
  add_output_options(parser, options);
  add_sampling_options(parser, options.sampling);
  parser.group("Speculation (changes the speed, never the text)");
  add_draft_options(parser, options.draft);
  parser.flag("--show-drafts", options.show_drafts, "colour accepted guesses; with -v also rejected ones");
  parser.group("Running");
  add_backend_options(parser, options.backend);
  parser.integer(
      {"-c,--context,--ctx-size", "N", "longest prompt plus answer, in tokens (default: what they need)"}, 1,
      kMostTokens, options.context);
  parser.footer("Ctrl-C ends the answer and prints the statistics (exit code 130); a second one kills.");
  if (!parser.parse(args)) return false;

  check_draft_options(options.draft);
  if (options.show_drafts && options.json)
    fail_usage("--show-drafts colours text; with --json there is none, leave one of them out");
  if (!images.empty()) fail_usage("--image: this build has no images yet; ask with text alone");
  if (options.model.model.empty()) fail_usage("no model is given; use -m MODEL");
  if (options.raw && !options.system.empty())
    fail_usage("--system needs chat turns; leave out --raw or --system");
  if (options.ids && (options.raw || !options.system.empty() || !options.stops.empty())) {
    fail_usage("--ids knows no text; leave out --raw, --system and --stop");
  }
  if (options.sampling.logprobs && !options.json) fail_usage("--logprobs are printed with --json; add it");
  if (options.stops.size() > kMostStops) fail_usage("--stop may be given {} times at most", kMostStops);
  for (const std::string& stop : options.stops) {
    if (stop.empty()) fail_usage("--stop must not be empty");
  }
  return true;
}

}  // namespace slip::cli
