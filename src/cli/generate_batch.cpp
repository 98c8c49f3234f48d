#include "cli/generate_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/batch_prompts.h"
#include "cli/drafters.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/statistics.h"
#include "cli/system_info.h"
#include "engine/decoded_text.h"
#include "engine/engine.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kDefaultParallel = 8;
// Of the memory left beside the weights, for the caches of all prompts at work.
constexpr double kCacheShare = 0.8;

struct Result {
  std::string text, error;
  std::vector<int> tokens;
  engine::FinishReason finish = engine::FinishReason::kNone;
  engine::Stats stats;
  uint64_t seed = 0;

  bool done() const { return finish != engine::FinishReason::kNone; }
  void take(const engine::Delta& delta) {
    if (delta.token >= 0) tokens.push_back(delta.token);
    text += delta.text;
    finish = delta.finish;
    error = delta.error;
    if (delta.stats != nullptr) stats = *delta.stats;
  }
};

ordered_json line_of(const BatchPrompt& prompt, const Result& result) {
  const speculate::Statistics& all = result.stats.speculation;
  ordered_json out = {{"id", prompt.id},
                      {"text", result.text},
                      {"tokens", result.tokens},
                      {"finish", engine::name_of(result.finish)},
                      {"prompt_tokens", prompt.tokens.size()},
                      {"seed", result.seed},
                      {"tokens_per_pass", all.tokens_per_pass()},
                      {"rounds", all.rounds},
                      {"drafted", ordered_json::array()},
                      {"accepted", ordered_json::array()}};
  for (size_t i = 0; i < all.drafted_at.size() && all.drafted_at[i] > 0; ++i) {
    out["drafted"].push_back(all.drafted_at[i]);
    out["accepted"].push_back(all.accepted_at[i]);
  }
  if (!result.error.empty()) out["error"] = result.error;
  return out;
}

/// A file, or the standard output.
class Lines {
 public:
  explicit Lines(const GenerateOptions& options) {
    if (!options.output || *options.output == "-") return;
    path_ = *options.output;
    std::error_code ignored;
    if (std::filesystem::equivalent(path_, *options.prompts, ignored))
      fail_usage("--output {} is the file of prompts; name another one", path_);
    file_.open(path_, std::ios::binary | std::ios::trunc);
    check();
  }
  void write(const ordered_json& line) {
    const std::string text = line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    if (path_.empty()) return write_out(text);
    file_ << text << std::flush;
    check();
  }

 private:
  void check() const {
    if (!file_) fail(ErrorKind::kRuntime, "{}: cannot be written; check the path and the disk", path_);
  }
  std::string path_;
  std::ofstream file_;
};

class Batch {
 public:
  Batch(const std::vector<BatchPrompt>& prompts, Lines& lines, bool visible)
      : prompts_(prompts),
        lines_(lines),
        results_(prompts.size()),
        visible_(visible && stderr_is_terminal()) {}

  /// Request i is made by `make`.
  template <typename Make>
  void run(engine::Engine& engine, const Make& make) {
    const InterruptGuard guard;
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      engine::Request request = make(prompts_[i], static_cast<int>(i));
      results_[i].seed = request.sampling.seed;
      request.sink = [&result = results_[i]](const engine::Delta& delta) { result.take(delta); };
      ids.push_back(engine.submit(std::move(request)));
    }
    while (engine.step()) {
      write_finished();
      show_progress();
      if (!guard.interrupted() || interrupted_) continue;
      interrupted_ = true;
      for (const uint64_t id : ids) engine.cancel(id);
    }
    write_finished();
    if (drawn_) write_err("\r\x1b[K");
  }

  bool interrupted() const { return interrupted_; }
  bool failed() const {
    return std::any_of(results_.begin(), results_.end(),
                       [](const Result& result) { return result.finish == engine::FinishReason::kError; });
  }
  std::string summary() const {
    speculate::Statistics all;
    for (const Result& result : results_) all.add(result.stats.speculation);
    std::string text = fmt::format("{}\n", progress_text());
    const std::string acceptance = acceptance_text(all);
    if (!acceptance.empty()) text += fmt::format("drafting: {}\n", acceptance);
    return text;
  }

 private:
  void write_finished() {
    for (; written_ < results_.size() && results_[written_].done(); ++written_)
      lines_.write(line_of(prompts_[written_], results_[written_]));
  }
  std::string progress_text() const {
    size_t done = 0, tokens = 0;
    for (const Result& result : results_) {
      done += result.done() ? 1 : 0;
      tokens += result.tokens.size();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return fmt::format("{} of {} prompts, {} tokens in {:.1f} s, {} tok/s", done, results_.size(), tokens,
                       seconds, rate_text(static_cast<double>(tokens) / std::max(seconds, 1e-9)));
  }
  void show_progress() {
    const auto now = Clock::now();
    if (!visible_ || now < next_) return;
    next_ = now + std::chrono::milliseconds(200);
    drawn_ = true;
    write_err("\r" + progress_text() + "\x1b[K");
  }

  const std::vector<BatchPrompt>& prompts_;
  Lines& lines_;
  std::vector<Result> results_;  // never resized: sinks refer to them
  size_t written_ = 0;
  bool interrupted_ = false, drawn_ = false;
  const bool visible_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

engine::EngineOptions engine_options(const GenerateOptions& options, int parallel) {
  engine::EngineOptions engine{.context = options.lengths.context, .sequences = parallel};
  if (const size_t available = memory_info().available; available > 0)
    engine.cache_bytes = static_cast<size_t>(static_cast<double>(available) * kCacheShare);
  return engine;
}

}  // namespace

int generate_batch(const GenerateOptions& options, const std::string& chosen) {
  const std::string folder = model_folder(options.model);
  LoadedModel model = open_model(folder, /*with_tokenizer=*/true);
  const std::vector<BatchPrompt> prompts = read_prompts(*options.prompts, model);
  for (const BatchPrompt& prompt : prompts)
    require_context(options.lengths, model.config(), prompt.tokens.size(), prompt.where + ": the prompt");
  const engine::Request common = make_request(model, options.sampling, options.lengths, {});
  Drafters drafters = open_drafters(options.draft, options.model.model, folder, *model.checkpoint);
  Lines lines(options);
  const int parallel =
      std::min(options.parallel.value_or(kDefaultParallel), static_cast<int>(prompts.size()));
  if (!options.quiet) write_err(chosen);
  load_weights(model, options.backend);
  load_drafters(drafters, options.draft, *model.backend, parallel);
  if (!options.quiet)
    write_err(fmt::format("device: {}\ndrafting: {}\n", device_text(model), drafters.description));

  engine::Engine engine(*model.backend, engine_options(options, parallel), drafters.speculator.get());
  Batch batch(prompts, lines, !options.quiet);
  batch.run(engine, [&](const BatchPrompt& prompt, int index) {
    engine::Request request;
    request.prompt = prompt.tokens;
    request.sampling = common.sampling;
    request.sampling.seed += static_cast<uint64_t>(index);  // equal prompts get other draws
    request.max_tokens = prompt.max_tokens > 0 ? prompt.max_tokens : common.max_tokens;
    request.stop_ids = common.stop_ids;
    request.stop_strings = options.stops;
    request.text = engine::decoded_text(*model.tokenizer);
    return request;
  });
  if (!options.quiet) write_err(batch.summary());
  if (batch.interrupted()) return kExitInterrupted;
  return batch.failed() ? Error(ErrorKind::kRuntime, "").exit_code() : kExitOk;
}

}  // namespace slip::cli
