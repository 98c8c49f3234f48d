#include "cli/commands/bench_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/noise.h"

namespace slip::cli {

namespace {

/// Sequences fed with random tokens, each with its own.
class Feed {
 public:
  Feed(backend::Backend& backend, int64_t positions, const std::function<bool()>& interrupted,
       int sequences = 1)
      : backend_(backend), interrupted_(interrupted) {
    for (int i = 0; i < sequences; ++i) {
      caches_.push_back(backend.new_cache());
      caches_.back()->reserve(positions);
      sequences_.push_back(caches_.back().get());
    }
    rows_.reserve(static_cast<size_t>(backend.max_rows()));
  }

  /// Seconds of one step of `width` rows of the first sequence. Without `commit` the next step is at the same
  /// place again.
  double step(int width, bool commit, bool outputs) { return run(part(0, 1), width, commit, outputs); }

  /// Seconds of one step with a row of each of the first `count` sequences, always at the same place: so they
  /// all stay at one length, however many take part.
  double step_together(int count) { return run(part(0, count), 1, false, true); }

  /// Seconds of a prompt in chunks; only its last row wants logits.
  double prompt(int tokens, int sequence = 0) {
    double seconds = 0;
    for (int left = tokens - 1; left > 0;) {
      const int chunk = std::min(left, backend_.max_rows());
      seconds += run(part(sequence, 1), chunk, true, false);
      left -= chunk;
    }
    return seconds + run(part(sequence, 1), 1, true, true);
  }

 private:
  using Sequences = std::span<kv::Cache* const>;

  Sequences part(int first, int count) const {
    return Sequences(sequences_).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  }

  /// Seconds of one step of `width` rows of each sequence.
  double run(Sequences sequences, int width, bool commit, bool outputs) {
    if (interrupted_()) fail(ErrorKind::kRuntime, "the benchmark was interrupted");
    rows_.clear();
    for (size_t s = 0; s < sequences.size(); ++s) {
      for (int i = 0; i < width; ++i) {
        backend::Row row;
        row.token = random_token();
        row.position = sequences[s]->length() + i;
        row.sequence = static_cast<int>(s);
        row.output = outputs;
        row.candidates = 64;  // what the settings that Gemma recommends need of a row
        rows_.push_back(row);
      }
      sequences[s]->stage(width);
    }
    const auto start = std::chrono::steady_clock::now();
    backend_.run({.rows = rows_, .sequences = sequences, .hidden = false});  // as without an assistant
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (commit) {
      for (kv::Cache* cache : sequences) cache->commit(width);
    }
    return seconds.count();
  }

  int random_token() {
    return static_cast<int>(keyed_bits(1, drawn_++) % static_cast<uint64_t>(backend_.config().vocab));
  }

  backend::Backend& backend_;
  const std::function<bool()>& interrupted_;
  std::vector<std::unique_ptr<kv::Cache>> caches_;
  std::vector<kv::Cache*> sequences_;  // the same, as a batch wants them
  std::vector<backend::Row> rows_;
  uint64_t drawn_ = 0;
};

/// Decoding several sequences in one step; one alone is always measured, before the others.
class Together {
 public:
  Together(backend::Backend& backend, const BenchPlan& plan, const std::function<bool()>& interrupted)
      : counts_(plan.sequences) {
    if (counts_.empty()) return;
    std::erase(counts_, 1);
    counts_.insert(counts_.begin(), 1);
    seconds_.resize(counts_.size());
    const int most = *std::max_element(counts_.begin(), counts_.end());
    const int context = plan.contexts[0];
    feed_ = std::make_unique<Feed>(backend, int64_t{context} + 1, interrupted, most);
    for (int i = 0; context > 0 && i < most; ++i) feed_->prompt(context, i);
    // The first steps touch fresh memory; they are not counted.
    for (const int count : counts_) feed_->step_together(count);
  }

  void measure(int steps) {
    for (size_t c = 0; c < counts_.size(); ++c) {
      for (int i = 0; i < steps; ++i) seconds_[c].push_back(feed_->step_together(counts_[c]));
    }
  }

  std::vector<SequencesResult> results() const {
    std::vector<SequencesResult> results;
    for (size_t c = 0; c < counts_.size(); ++c) results.push_back({counts_[c], median(seconds_[c])});
    return results;
  }
  void step(int count) { feed_->step_together(count); }

 private:
  std::vector<int> counts_;
  std::vector<std::vector<double>> seconds_;  // of the steps of each count
  std::unique_ptr<Feed> feed_;
};

/// The phases of a step. Apart from the other measurements, since reading clocks takes time too.
std::vector<backend::Backend::PhaseTime> time_phases(backend::Backend& backend, int repeats,
                                                     const std::function<void()>& step) {
  const int steps = 4 * repeats;
  backend.time_phases();
  for (int i = 0; i < steps; ++i) step();
  auto phases = backend.phase_times();
  for (auto& phase : phases) phase.seconds /= steps;
  return phases;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

BenchResult run_bench(backend::Backend& backend, const BenchPlan& plan,
                      const std::function<bool()>& interrupted) {
  const int widest = plan.widths.empty() ? 1 : *std::max_element(plan.widths.begin(), plan.widths.end());
  const int longest = *std::max_element(plan.contexts.begin(), plan.contexts.end());
  const int64_t room = int64_t{longest} + plan.repeats * plan.decode_steps + widest + 1;
  if (std::max<int64_t>(room, plan.prompt) > backend.config().max_positions) {
    fail_usage(
        "the measurement needs {} positions and this model has {}; use a smaller --contexts or --prompt",
        std::max<int64_t>(room, plan.prompt), backend.config().max_positions);
  }
  std::vector<std::unique_ptr<Feed>> feeds;
  for (const int context : plan.contexts) {
    feeds.push_back(std::make_unique<Feed>(backend, room, interrupted));
    if (context > 0) feeds.back()->prompt(context);
  }
  // The first steps touch fresh memory; they are not counted.
  for (const auto& feed : feeds) feed->step(1, false, true);
  Together together(backend, plan, interrupted);

  std::vector<double> bandwidth, prompt;
  std::vector<std::vector<double>> decode(plan.contexts.size()), widths(plan.widths.size());
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    bandwidth.push_back(backend.measure_read_bandwidth());
    for (size_t d = 0; d < plan.contexts.size(); ++d) {
      for (int i = 0; i < plan.decode_steps; ++i) decode[d].push_back(feeds[d]->step(1, true, true));
    }
    for (size_t w = 0; w < plan.widths.size(); ++w) {
      for (int i = 0; i < 2; ++i) widths[w].push_back(feeds[0]->step(plan.widths[w], false, true));
    }
    together.measure(plan.decode_steps);
    // A prompt takes long enough to average over the machine's moods by itself.
    if (plan.prompt > 0 && repeat < 2) {
      Feed fresh(backend, plan.prompt, interrupted);
      prompt.push_back(fresh.prompt(plan.prompt));
    }
  }

  BenchResult result;
  result.bandwidth = median(bandwidth);
  result.bandwidth_low = *std::min_element(bandwidth.begin(), bandwidth.end());
  result.bandwidth_high = *std::max_element(bandwidth.begin(), bandwidth.end());
  for (size_t d = 0; d < plan.contexts.size(); ++d) {
    const int middle = plan.contexts[d] + plan.repeats * plan.decode_steps / 2;
    const size_t bytes = backend.streamed_bytes() + backend.kv_layout().bytes_read_at(middle);
    result.decode.push_back({plan.contexts[d], median(decode[d]), static_cast<double>(bytes)});
  }
  for (size_t w = 0; w < plan.widths.size(); ++w)
    result.widths.push_back({plan.widths[w], median(widths[w])});
  result.sequences = together.results();
  if (plan.phases) {
    for (WidthResult& at : result.widths)
      at.phases = time_phases(backend, plan.repeats, [&] { feeds[0]->step(at.width, false, true); });
    for (SequencesResult& at : result.sequences)
      at.phases = time_phases(backend, plan.repeats, [&] { together.step(at.count); });
  }
  if (plan.prompt > 0) {
    result.prompt = plan.prompt;
    result.prompt_seconds = *std::min_element(prompt.begin(), prompt.end());
  }
  return result;
}

}  // namespace slip::cli
