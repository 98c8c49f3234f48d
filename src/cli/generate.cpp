// generate: one prompt in, one answer out. A client of the engine: it submits a request, prints what comes
// back and looks for Ctrl-C between steps.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/draft_colours.h"
#include "cli/drafters.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/statistics.h"
#include "cli/text_input.h"
#include "engine/decoded_text.h"
#include "engine/engine.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;

// An answer's length when neither -n nor -c says; far beyond what the models write, and its cache stays
// small.
constexpr int kDefaultAnswer = 8192;

/// Prints deltas as they come, or keeps them for one JSON object at the end.
class Answer {
 public:
  Answer(const GenerateOptions& options, const text::Tokenizer* tokenizer)
      : options_(options), tokenizer_(tokenizer), painted_(options.show_drafts && stdout_is_terminal()) {}

  /// For the engine's sink, which must not throw: a failed write is kept and ends the answer.
  void take(const engine::Delta& delta) {
    try {
      if (delta.token >= 0) tokens_.push_back(delta.token);
      options_.json ? keep(delta) : print(delta);
    } catch (...) {
      failure_ = std::current_exception();
    }
    finish_ = delta.finish;
    if (delta.stats != nullptr) stats_ = *delta.stats;
    error_ = delta.error;
    error_kind_ = delta.error_kind;
  }
  bool failed() const { return failure_ != nullptr; }

  /// After the last delta: rethrows what went wrong, completes the last line.
  void end() {
    if (failure_) std::rethrow_exception(failure_);
    if (!options_.json && !ends_line_) write_out("\n");
    if (finish_ == engine::FinishReason::kError) fail(error_kind_, "{}", error_);
  }

  ordered_json json() const {
    ordered_json out = {{"text", text_}, {"tokens", tokens_}, {"finish_reason", engine::name_of(finish_)}};
    if (options_.ids) out.erase("text");
    if (options_.sampling.logprobs) out["logprobs"] = logprobs_;
    return out;
  }
  const engine::Stats& stats() const { return stats_; }
  bool cancelled() const { return finish_ == engine::FinishReason::kCancelled; }

 private:
  void print(const engine::Delta& delta) {
    std::string text(delta.text);
    if (options_.ids && delta.token >= 0)
      text = fmt::format("{}{}", tokens_.size() > 1 ? " " : "", delta.token);
    if (!text.empty()) ends_line_ = text.ends_with('\n');
    if (painted_) text = paint(delta, text);
    if (!text.empty()) write_out(text);
  }
  std::string paint(const engine::Delta& delta, const std::string& text) const {
    if (!options_.verbose) return painted(delta, text, {});
    return painted(delta, text, [this](int token) {
      if (tokenizer_ == nullptr) return fmt::format(" {}", token);
      return tokenizer_->decode({&token, 1});
    });
  }
  void keep(const engine::Delta& delta) {
    text_ += delta.text;
    if (!options_.sampling.logprobs || delta.token < 0) return;
    ordered_json entry = token_json(delta.token, delta.logprob);
    entry["top"] = ordered_json::array();
    for (const sample::TokenLogprob& other : delta.top)
      entry["top"].push_back(token_json(other.id, other.logprob));
    logprobs_.push_back(std::move(entry));
  }
  ordered_json token_json(int id, float logprob) const {
    ordered_json out = {{"id", id}, {"logprob", logprob}};
    if (tokenizer_ != nullptr && id < tokenizer_->vocab_size()) out["piece"] = tokenizer_->piece(id);
    return out;
  }

  const GenerateOptions& options_;
  const text::Tokenizer* tokenizer_;
  std::string text_, error_;
  std::vector<int> tokens_;
  ordered_json logprobs_ = ordered_json::array();
  engine::Stats stats_;
  engine::FinishReason finish_ = engine::FinishReason::kNone;
  ErrorKind error_kind_ = ErrorKind::kRuntime;
  std::exception_ptr failure_;
  bool ends_line_ = false;
  const bool painted_;
};

std::vector<int> encode_prompt(const GenerateOptions& options, const LoadedModel& model,
                               const std::string& text) {
  if (options.ids) return parse_ids(text, model.config().vocab - 1);
  if (options.raw) return model.tokenizer->encode(text, {.specials = true, .add_bos = true});
  std::vector<text::Turn> turns;
  if (!options.system.empty()) turns.push_back({text::Role::kSystem, options.system});
  turns.push_back({text::Role::kUser, text});
  return text::encode_chat(*model.tokenizer, turns, prompt_options(model.config()));
}

engine::Request make_request(const GenerateOptions& options, const LoadedModel& model,
                             std::vector<int> prompt) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.sampling = resolve_sampling(options.sampling, model.checkpoint->generation, model.config().vocab);
  // With -c alone the answer may fill the context.
  const int unbounded = options.context > 0 ? options.context : kDefaultAnswer;
  request.max_tokens = options.max_tokens > 0 ? options.max_tokens : unbounded;
  request.stop_ids = model.checkpoint->generation.stop_ids;
  request.stop_strings = options.stops;
  if (model.tokenizer) request.text = engine::decoded_text(*model.tokenizer, {.skip_specials = true});
  return request;
}

/// What the engine would refuse too, but only after the weights are loaded.
void require_context(const GenerateOptions& options, const model::Config& config, size_t prompt_tokens) {
  if (options.context > config.max_positions) {
    fail_usage("--context must be a whole number from 1 to {} for this model, not {}", config.max_positions,
               options.context);
  }
  const int context = options.context > 0 ? options.context : config.max_positions;
  if (prompt_tokens == 0) fail_usage("the prompt is empty; give at least one token");
  if (prompt_tokens >= static_cast<size_t>(context)) {
    fail_usage(
        "the prompt has {} tokens and the context {}, which leaves no room for an answer; shorten it{}",
        prompt_tokens, context, options.context > 0 ? " or raise --context" : "");
  }
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

SpeedReport measure(backend::Backend& backend, const engine::Stats& stats) {
  SpeedReport report{.stats = stats};
  const int middle = stats.prompt_tokens + stats.output_tokens / 2;
  report.bytes_per_pass =
      static_cast<double>(backend.streamed_bytes() + backend.kv_layout().bytes_read_at(middle));
  if (report.decode_rate() > 0) report.read_bandwidth = backend.measure_read_bandwidth();
  return report;
}

/// What is used, before the answer.
std::string announcement(const GenerateOptions& options, const LoadedModel& model, const Drafters& drafters) {
  const std::string note = model.device_note.empty() ? "" : fmt::format(" ({})", model.device_note);
  std::string text =
      fmt::format("device: {}{}\ndrafting: {}\n", model.backend->description(), note, drafters.description);
  if (options.show_drafts && !options.json) {
    text += stdout_is_terminal() ? colour_legend(options.verbose) + "\n"
                                 : "--show-drafts: the output is no terminal, so nothing is coloured\n";
  }
  return text;
}

/// How it went, after it.
std::string closing(const SpeedReport& report, const LoadedModel& model, const Drafters& drafters) {
  std::string text = fmt::format("{} | {}\n", statistics_text(report), model.backend->description());
  if (drafters.speculator == nullptr) return text;
  const std::string speculation = speculation_text(report.stats.speculation);
  if (!speculation.empty()) text += fmt::format("drafting: {}\n", speculation);
  for (const std::string& failure : drafters.speculator->failures()) text += failure + "\n";
  return text;
}

int run_generate(const Arguments& args) {
  GenerateOptions options;
  if (!parse_generate(args, options)) return kExitOk;
  const std::string folder = model_folder(options.model);
  const std::string text = read_text({options.prompt, options.file}, "-p PROMPT, -f FILE or a pipe");

  LoadedModel model = open_model(folder, !options.ids);
  engine::Request request = make_request(options, model, encode_prompt(options, model, text));
  require_context(options, model.config(), request.prompt.size());
  const uint64_t seed = request.sampling.seed;
  Drafters drafters = open_drafters(options.draft, options.model.model, folder, *model.checkpoint);
  load_weights(model, options.backend);
  load_drafters(drafters, options.draft, *model.backend, 1);
  if (!options.quiet) write_err(announcement(options, model, drafters));

  engine::Engine engine(*model.backend, {.context = options.context, .sequences = 1},
                        drafters.speculator.get());
  Answer answer(options, model.tokenizer ? &*model.tokenizer : nullptr);
  answer_request(engine, std::move(request), answer);
  answer.end();

  if (options.json || !options.quiet) {
    const SpeedReport report = measure(*model.backend, answer.stats());
    if (!options.quiet) write_err(closing(report, model, drafters));
    if (options.json) {
      ordered_json out = answer.json();
      out["seed"] = seed;
      out["statistics"] = statistics_json(report);
      write_out(out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    }
  }
  return answer.cancelled() ? kExitInterrupted : kExitOk;
}

}  // namespace

const Command generate_command{"generate", "Write text with a model", run_generate};

}  // namespace slip::cli
