#include "cli/commands/generate_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/commands/batch_prompts.h"
#include "cli/commands/loading.h"
#include "cli/commands/pulling.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/report_text.h"
#include "media/worker_program.h"
#include "session/delta_queue.h"
#include "session/model.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;
using session::Model;
using Clock = std::chrono::steady_clock;

constexpr int kDefaultParallel = 8;
// Of the memory left beside the weights, for the caches of all prompts at work.
constexpr double kCacheShare = 0.8;

struct Result {
  session::Reply reply;
  uint64_t seed = 0;
};

ordered_json line_of(const BatchPrompt& prompt, const Result& result) {
  const session::Reply& reply = result.reply;
  const speculate::Statistics& all = reply.stats.speculation;
  ordered_json out = {{"id", prompt.id},
                      {"text", reply.text},
                      {"tokens", reply.tokens},
                      {"finish", engine::name_of(reply.finish)},
                      {"prompt_tokens", prompt.prompt.size()},
                      {"seed", result.seed},
                      {"tokens_per_pass", all.tokens_per_pass()},
                      {"rounds", all.rounds},
                      {"drafted", ordered_json::array()},
                      {"accepted", ordered_json::array()}};
  for (size_t i = 0; i < all.drafted_at.size() && all.drafted_at[i] > 0; ++i) {
    out["drafted"].push_back(all.drafted_at[i]);
    out["accepted"].push_back(all.accepted_at[i]);
  }
  if (!reply.error.empty()) out["error"] = reply.error;
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
  void run(Model& model, const Make& make) {
    const InterruptGuard guard;
    std::vector<uint64_t> ids;
    session::DeltaQueue queue;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      engine::Request request = make(prompts_[i], static_cast<int>(i));
      results_[i].seed = request.sampling.seed;
      request.sink = queue.sink();
      ids.push_back(model.submit(std::move(request)));
    }
    for (size_t ended = 0; ended < results_.size();) {
      if (const auto delta = queue.pop(std::chrono::milliseconds(50))) {
        const engine::Delta view = delta->view();
        results_[static_cast<size_t>(view.choice)].reply.on_delta(view);
        ended += view.finish != engine::FinishReason::kNone ? 1 : 0;
        write_finished();
      }
      show_progress();
      if (!guard.interrupted() || interrupted_) continue;
      interrupted_ = true;
      for (const uint64_t id : ids) model.cancel(id);
    }
    if (drawn_) write_err("\r\x1b[K");
  }

  bool interrupted() const { return interrupted_; }
  bool failed() const {
    return std::any_of(results_.begin(), results_.end(), [](const Result& result) {
      return result.reply.finish == engine::FinishReason::kError;
    });
  }
  std::string summary() const {
    speculate::Statistics all;
    for (const Result& result : results_) all.add(result.reply.stats.speculation);
    std::string text = fmt::format("{}\n", progress_text());
    const std::string acceptance = acceptance_text(all);
    if (!acceptance.empty()) text += fmt::format("drafting: {}\n", acceptance);
    return text;
  }

 private:
  void write_finished() {
    for (; written_ < results_.size() && results_[written_].reply.done(); ++written_)
      lines_.write(line_of(prompts_[written_], results_[written_]));
  }
  std::string progress_text() const {
    size_t done = 0, tokens = 0;
    for (const Result& result : results_) {
      done += result.reply.done() ? 1 : 0;
      tokens += result.reply.tokens.size();
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
  std::vector<Result> results_;
  size_t written_ = 0;
  bool interrupted_ = false, drawn_ = false;
  const bool visible_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
};

engine::EngineOptions engine_options(const GenerateOptions& options, int parallel) {
  engine::EngineOptions engine{.context = options.lengths.context, .sequences = parallel};
  if (const size_t available = session::memory_info().available; available > 0)
    engine.cache_bytes = static_cast<size_t>(static_cast<double>(available) * kCacheShare);
  return engine;
}

}  // namespace

int generate_batch(const GenerateOptions& options) {
  offer_pull(options.model);
  const auto model =
      Model::open(options.model.model, {.chat_template = options.conversation.chat_template,
                                        .vision = {.decoder = {.worker = media::this_program()}}});
  const std::vector<BatchPrompt> prompts = read_prompts(*options.prompts, *model, options.images.tokens);
  int picture_tokens = 0;
  for (const BatchPrompt& prompt : prompts) {
    model->require_room(prompt.prompt.size(), options.lengths.context, prompt.where + ": the prompt");
    picture_tokens = std::max(picture_tokens, prompt.picture_tokens);
  }
  session::Generation generation{.sampling = options.sampling,
                                 .form = session::ReplyForm::kSpelled,
                                 .max_tokens = options.lengths.answer_limit(),
                                 .stop_strings = options.stops};
  // Equal prompts get other draws: the seed of a prompt is that of the first, and its place.
  generation.sampling.seed = model->request({}, generation).sampling.seed;
  model->open_drafters(options.draft);
  Lines lines(options);
  const int parallel =
      std::min(options.parallel.value_or(kDefaultParallel), static_cast<int>(prompts.size()));
  if (!options.quiet) write_err(default_model_note(options.model));
  load_with_bar(*model, {.backend = options.backend,
                         .draft = options.draft,
                         .engine = engine_options(options, parallel),
                         .vision = picture_tokens > 0,
                         .picture_tokens = picture_tokens});
  if (!options.quiet) write_err(settings_text(*model));

  Batch batch(prompts, lines, !options.quiet);
  batch.run(*model, [&](const BatchPrompt& prompt, int index) {
    generation.choice = index;
    session::Generation own = generation;
    if (prompt.max_tokens > 0) own.max_tokens = prompt.max_tokens;
    return model->request(prompt.prompt, own);
  });
  if (!options.quiet) write_err(batch.summary());
  if (batch.interrupted()) return kExitInterrupted;
  return batch.failed() ? Error(ErrorKind::kRuntime, "").exit_code() : kExitOk;
}

}  // namespace slip::cli
