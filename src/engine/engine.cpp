#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace slip::engine {
namespace {

int context_of(const backend::Backend& backend, const EngineOptions& options) {
  const int most = backend.config().max_positions;
  if (options.context < 0 || options.context > most) {
    fail_usage("the context must lie between 1 and {} tokens, the length this model was made for, not {}",
               most, options.context);
  }
  return options.context == 0 ? most : options.context;
}

Scheduler::Limits limits_of(const backend::Backend& backend, const kv::Layout& layout,
                            const EngineOptions& options) {
  if (options.sequences < 1)
    fail_usage("at least one sequence must be allowed to run, not {}", options.sequences);
  if (options.step_rows < 0) fail_usage("the rows of a step must be positive, not {}", options.step_rows);
  if (options.draft_sequences < 0)
    fail_usage("the sequences up to which guesses are made must be positive, not {}",
               options.draft_sequences);
  if (options.mixed_prompt_rows < 1) {
    fail_usage("the prompt rows of a mixed step must be at least 1, not {}", options.mixed_prompt_rows);
  }
  const int most = backend.max_rows();
  const int rows = options.step_rows == 0 ? most : std::min(options.step_rows, most);
  return {.step_rows = rows,
          .sequence_rows = std::min(rows, layout.max_step_rows()),
          .mixed_prompt_rows = options.mixed_prompt_rows,
          .sequences = std::min(options.sequences, rows),
          .bytes = options.cache_bytes};
}

}  // namespace

void StepSizes::add(int step_tokens) {
  const auto place = std::lower_bound(kMost.begin(), kMost.end(), step_tokens);
  ++steps[static_cast<size_t>(place - kMost.begin())];
  tokens += static_cast<uint64_t>(step_tokens);
}

Engine::Engine(backend::Backend& backend, const EngineOptions& options, speculate::Speculator* speculator)
    : backend_(backend),
      layout_(backend.kv_layout()),
      context_(context_of(backend, options)),
      vocab_(backend.config().vocab),
      draft_sequences_(options.draft_sequences),
      scheduler_(limits_of(backend, layout_, options)),
      sampler_(vocab_),
      speculator_(speculator) {
  const auto sequences = static_cast<size_t>(scheduler_.limits().sequences);
  running_.reserve(sequences);
  views_.reserve(sequences);
  needs_.reserve(sequences);
  row_counts_.reserve(sequences);
  output_counts_.reserve(sequences);
  caches_.reserve(sequences);
  rows_.reserve(static_cast<size_t>(scheduler_.limits().step_rows));
  publish_load();
}

Engine::~Engine() {
  if (speculator_ == nullptr) return;
  for (const auto& sequence : running_) speculator_->settled(sequence->id());
}

void Engine::check(const Request& request) const {
  if (request.prompt.empty())
    fail_usage("the prompt is empty; give the model at least one token to start from");
  for (const int id : request.prompt) {
    if (id < 0 || id >= vocab_) {
      fail_usage("the prompt holds token {}, but the model's ids go from 0 to {}", id, vocab_ - 1);
    }
  }
  if (request.prompt.size() >= static_cast<size_t>(context_)) {
    fail_usage(
        "the prompt has {} tokens, but with a context of {} it may have at most {}; shorten it or raise the "
        "context",
        request.prompt.size(), context_, context_ - 1);
  }
  if (request.max_tokens < 1) fail_usage("max_tokens must be at least 1, not {}", request.max_tokens);
  sample::validate(request.sampling, vocab_);
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) fail_usage("a stop string is empty; it would match before the first token");
  }
  if (!request.stop_strings.empty() && request.reply == nullptr) {
    fail_usage("stop strings need text, but the request asks for tokens only");
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    fail_usage("min_tokens must lie between 0 and max_tokens ({}), not {}", request.max_tokens,
               request.min_tokens);
  }
  if (request.prompt_logprobs > sample::kMaxTopLogprobs) {
    fail_usage("prompt_logprobs must be at most {}, not {}", sample::kMaxTopLogprobs,
               request.prompt_logprobs);
  }
  SLIP_CHECK(request.sink != nullptr);
}

size_t Engine::cache_bytes(int most_tokens) const {
  const size_t drafters = speculator_ == nullptr ? 0 : speculator_->bytes_at(most_tokens);
  return layout_.bytes_at(most_tokens) + drafters;
}

int Engine::longest() const {
  int fits = 0;
  for (int most = context_; fits < most;) {
    const int middle = most - (most - fits) / 2;
    if (scheduler_.can_ever_admit(cache_bytes(middle))) {
      fits = middle;
    } else {
      most = middle - 1;
    }
  }
  return fits;
}

uint64_t Engine::submit(Request request) {
  check(request);
  auto sequence =
      std::make_unique<Sequence>(next_id_++, std::move(request), Sequence::Limits{context_, vocab_});
  const uint64_t id = sequence->id();
  const size_t bytes = cache_bytes(sequence->most_tokens());
  if (!scheduler_.can_ever_admit(bytes)) {
    fail(ErrorKind::kOutOfMemory,
         "{} tokens need a cache of {:.1f} MiB, but only {:.1f} MiB are set aside for caches; shorten the "
         "prompt or lower "
         "max_tokens",
         sequence->most_tokens(), static_cast<double>(bytes) / 0x1p20,
         static_cast<double>(scheduler_.limits().bytes) / 0x1p20);
  }
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(sequence));
  }
  const std::lock_guard lock(load_mutex_);
  ++load_.waiting;
  return id;
}

void Engine::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
}

bool Engine::step() {
  read_notes();
  admit();
  if (!running_.empty()) run_batch();
  retire();
  publish_load();
  return !running_.empty() || !waiting_.empty() || notes_left();
}

Load Engine::load() const {
  const std::lock_guard lock(load_mutex_);
  return load_;
}

void Engine::publish_load() {
  const Scheduler::Limits& limits = scheduler_.limits();
  Load load{.running = running(),
            .waiting = waiting(),
            .sequences = limits.sequences,
            .cache_bytes = limits.bytes,
            .free_bytes = limits.bytes - scheduler_.bytes_in_use(),
            .prompt_rate = meter_.prompt_rate(),
            .decode_rate = meter_.decode_rate(),
            .sizes = sizes_};
  {
    const std::lock_guard lock(mutex_);
    load.waiting += static_cast<int>(submitted_.size());
  }
  const std::lock_guard lock(load_mutex_);
  load.steps = load_.steps + 1;
  load_ = load;
}

void Engine::end_all(FinishReason reason, std::string_view error) {
  read_notes();
  for (auto& sequence : running_) sequence->finish(reason, error);
  retire();
  for (auto& sequence : waiting_) sequence->finish(reason, error);
  waiting_.clear();
  publish_load();
}

bool Engine::notes_left() {
  const std::lock_guard lock(mutex_);
  return !submitted_.empty();
}

void Engine::read_notes() {
  cancels_.clear();
  {
    const std::lock_guard lock(mutex_);
    for (auto& sequence : submitted_) waiting_.push_back(std::move(sequence));
    submitted_.clear();
    std::swap(cancels_, cancelled_);
  }
  if (cancels_.empty()) return;
  const auto is_cancelled = [&](const auto& sequence) {
    return std::find(cancels_.begin(), cancels_.end(), sequence->id()) != cancels_.end();
  };
  for (auto& sequence : running_) {
    if (is_cancelled(sequence)) sequence->finish(FinishReason::kCancelled);
  }
  retire();
  for (auto& sequence : waiting_) {
    if (is_cancelled(sequence)) sequence->finish(FinishReason::kCancelled);
  }
  std::erase_if(waiting_, [](const auto& sequence) { return sequence->finished(); });
}

void Engine::admit() {
  while (!waiting_.empty()) {
    Sequence& next = *waiting_.front();
    if (!scheduler_.admit(cache_bytes(next.most_tokens()))) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    try {
      next.admit(backend_.new_cache());
      if (speculator_ != nullptr) speculator_->begin(next.view());
    } catch (const std::exception& error) {
      next.fail(error);
      retire();
    }
  }
}

void Engine::run_batch() {
  decoding_ = static_cast<int>(std::count_if(running_.begin(), running_.end(),
                                             [](const auto& sequence) { return sequence->decoding(); }));
  if (speculator_ != nullptr) propose();
  gather_rows();
  const auto begin = std::chrono::steady_clock::now();
  backend::Output output;
  try {
    const bool hidden = speculator_ != nullptr && speculator_->reads_hidden();
    output = backend_.run({.rows = rows_, .sequences = caches_, .hidden = hidden});
  } catch (const std::exception& error) {
    for (size_t i = 0; i < running_.size(); ++i) {
      if (row_counts_[i] > 0) running_[i]->fail(error);
    }
    return;
  }
  take_results(output, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

void Engine::propose() {
  views_.clear();
  const bool crowded = draft_sequences_ > 0 && decoding_ > draft_sequences_;
  for (const auto& sequence : running_) {
    if (sequence->drafting() && !crowded) views_.push_back(&sequence->view());
  }
  const Scheduler::Limits& limits = scheduler_.limits();
  // Where prompts wait, the scheduler grants guesses half of the room.
  const int room = limits.step_rows - decoding_;
  const bool alone = decoding_ == running();
  speculator_->propose(views_, static_cast<int>(views_.size()) + (alone ? room : room / 2),
                       limits.sequence_rows);
  size_t index = 0;
  for (const auto& sequence : running_) {
    if (!sequence->drafting() || crowded) continue;
    sequence->propose(speculator_->guesses(index));
    sequence->explain(speculator_->decision(index++));
  }
}

void Engine::gather_rows() {
  const size_t count = running_.size();
  needs_.clear();
  for (const auto& sequence : running_) needs_.push_back(sequence->need());
  row_counts_.assign(count, 0);
  scheduler_.pick(needs_, row_counts_);

  rows_.clear();
  caches_.clear();
  output_counts_.assign(count, 0);
  for (size_t i = 0; i < count; ++i) {
    if (row_counts_[i] == 0) continue;
    output_counts_[i] = running_[i]->add_rows(row_counts_[i], static_cast<int>(caches_.size()), rows_);
    caches_.push_back(running_[i]->cache());
  }
}

void Engine::take_results(const backend::Output& output, double seconds) {
  const int sequences = static_cast<int>(caches_.size());
  StepTimes times{.pass_s = seconds};
  if (speculator_ != nullptr) {
    const bool decoding_only = decoding_ == sequences;
    speculator_->passed(static_cast<int>(rows_.size()), sequences, seconds, decoding_only);
    times.draft_s = speculator_->draft_seconds();
    times.plain_s = decoding_only ? speculator_->plain_seconds(sequences) : 0;
  }
  int first_row = 0, first_output = 0, prompt_rows = 0, tokens = 0;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (row_counts_[i] == 0) continue;
    Sequence& sequence = *running_[i];
    const size_t known = sequence.tokens().size();
    const int length = sequence.cache()->length();
    if (!sequence.decoding()) prompt_rows += row_counts_[i];
    const speculate::Outcome outcome =
        sequence.consume(output, first_output, output_counts_[i], sampler_, times);
    tokens += static_cast<int>(sequence.tokens().size() - known);
    if (speculator_ != nullptr) {
      speculator_->judged(sequence.view(), row_counts_[i] - needs_[i].known, outcome);
      if (!sequence.finished()) {
        const int kept = sequence.cache()->length() - length;
        speculator_->committed(sequence.view(), pass_of(output, i, kept, first_row, first_output));
      }
    }
    first_row += row_counts_[i];
    first_output += output_counts_[i];
  }
  SLIP_CHECK(first_output == output.rows);
  meter_.add(prompt_rows, tokens, seconds + times.draft_s);
  sizes_.add(prompt_rows + tokens);
}

// What the drafters get to see of the rows of running_[index].
speculate::Pass Engine::pass_of(const backend::Output& output, size_t index, int kept, int first_row,
                                int first_output) const {
  speculate::Pass pass{.rows = row_counts_[index], .kept = kept};
  // Rows that want output are the last ones; of those, the kept come first.
  const int kept_outputs = kept - (row_counts_[index] - output_counts_[index]);
  const ptrdiff_t hidden = backend_.config().hidden;
  if (output.hidden != nullptr && kept_outputs > 0) {
    pass.hidden = output.hidden + (first_output + kept_outputs - 1) * hidden;
  }
  if (output.taps != nullptr)
    pass.taps = output.taps + first_row * static_cast<ptrdiff_t>(speculator_->tap_floats());
  return pass;
}

void Engine::retire() {
  std::erase_if(running_, [&](const auto& sequence) {
    if (!sequence->finished()) return false;
    scheduler_.release(cache_bytes(sequence->most_tokens()));
    if (speculator_ != nullptr) speculator_->settled(sequence->id());
    return true;
  });
}

}  // namespace slip::engine
