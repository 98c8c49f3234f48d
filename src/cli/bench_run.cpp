#include "cli/bench_run.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/noise.h"

namespace slip::cli {

namespace {

/// One sequence fed with random tokens.
class Feed {
 public:
  Feed(backend::Backend& backend, int64_t positions, const std::function<bool()>& interrupted)
      : backend_(backend), interrupted_(interrupted), cache_(backend.new_cache()) {
    cache_->reserve(positions);
    rows_.reserve(static_cast<size_t>(backend.max_rows()));
  }

  int length() const { return cache_->length(); }

  /// Seconds of one step of `width` rows. Without `commit` the next step is at the same place again.
  double step(int width, bool commit, bool outputs) {
    if (interrupted_()) fail(ErrorKind::kRuntime, "the benchmark was interrupted");
    rows_.clear();
    for (int i = 0; i < width; ++i) {
      backend::Row row;
      row.token = static_cast<int>(keyed_bits(1, drawn_++) % static_cast<uint64_t>(backend_.config().vocab));
      row.position = cache_->length() + i;
      row.output = outputs;
      row.best = 64;  // what the settings that Gemma recommends need of a row
      rows_.push_back(row);
    }
    kv::Cache* sequences[] = {cache_.get()};
    cache_->stage(width);
    const auto start = std::chrono::steady_clock::now();
    backend_.run({rows_, sequences});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (commit) cache_->commit(width);
    return seconds.count();
  }

  /// Seconds of a prompt in chunks; only its last row wants logits.
  double prompt(int tokens) {
    double seconds = 0;
    for (int left = tokens - 1; left > 0;) {
      const int chunk = std::min(left, backend_.max_rows());
      seconds += step(chunk, true, false);
      left -= chunk;
    }
    return seconds + step(1, true, true);
  }

 private:
  backend::Backend& backend_;
  const std::function<bool()>& interrupted_;
  std::unique_ptr<kv::Cache> cache_;
  std::vector<backend::Row> rows_;
  uint64_t drawn_ = 0;
};

/// Apart from the other measurements, since reading clocks takes time too.
void time_phases(backend::Backend& backend, Feed& feed, int repeats, std::vector<WidthResult>& widths) {
  const int steps = 4 * repeats;
  for (WidthResult& at : widths) {
    backend.time_phases();
    for (int i = 0; i < steps; ++i) feed.step(at.width, false, true);
    at.phases = backend.phase_times();
    for (auto& phase : at.phases) phase.seconds /= steps;
  }
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
  if (plan.phases) time_phases(backend, *feeds[0], plan.repeats, result.widths);
  if (plan.prompt > 0) {
    result.prompt = plan.prompt;
    result.prompt_seconds = *std::min_element(prompt.begin(), prompt.end());
  }
  return result;
}

}  // namespace slip::cli
