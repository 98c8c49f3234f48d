#include "cli/load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/human.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;

LoadFigures::Spread spread_of(const std::vector<double>& values) {
  return {percentile(values, 0.5), percentile(values, 0.9), percentile(values, 0.99)};
}

std::string level_text(const LoadLevel& level) {
  return level.concurrency > 0 ? fmt::format("{} at once", level.concurrency)
                               : fmt::format("{:g} a second", level.rate);
}

std::string ms_text(const LoadFigures::Spread& spread) {
  return fmt::format("{:.1f} / {:.1f} / {:.1f}", spread.p50 * 1e3, spread.p90 * 1e3, spread.p99 * 1e3);
}

ordered_json spread_json(const LoadFigures::Spread& spread) {
  return {{"p50", spread.p50}, {"p90", spread.p90}, {"p99", spread.p99}};
}

/// What went wrong, and how often.
std::map<std::string, int> errors_of(const LoadResult& result) {
  std::map<std::string, int> errors;
  for (const LoadSample& sample : result.samples)
    if (!sample.error.empty()) ++errors[sample.error];
  return errors;
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

LoadFigures figures_of(const LoadResult& result) {
  LoadFigures figures;
  std::vector<double> first, token, pause, whole;
  double prompt = 0, cached = 0, output = 0;
  int drafted = 0, accepted = 0;
  for (const LoadSample& sample : result.samples) {
    if (!sample.error.empty()) {
      ++figures.failed;
      continue;
    }
    ++figures.answered;
    first.push_back(sample.first_token_s());
    if (sample.output_tokens > 1) token.push_back(sample.token_s());
    pause.insert(pause.end(), sample.pauses.begin(), sample.pauses.end());
    whole.push_back(sample.ended - sample.begun);
    prompt += sample.prompt_tokens, cached += sample.cached_tokens, output += sample.output_tokens;
    drafted += sample.drafted, accepted += sample.accepted;
  }
  if (figures.answered > 0) {
    figures.prompt_tokens = prompt / figures.answered;
    figures.cached_tokens = cached / figures.answered;
    figures.output_tokens = output / figures.answered;
  }
  if (result.seconds > 0) {
    figures.requests_per_s = figures.answered / result.seconds;
    figures.tokens_per_s = output / result.seconds;
  }
  if (drafted > 0) figures.acceptance = static_cast<double>(accepted) / drafted;
  figures.first_token_s = spread_of(first);
  figures.token_s = spread_of(token);
  figures.pause_s = spread_of(pause);
  figures.whole_s = spread_of(whole);
  return figures;
}

std::string load_markdown(const LoadPlan& plan, const std::vector<LoadResult>& results) {
  std::string text = fmt::format(
      "prompts of {} words{}, answers of {} tokens, {} {} in turns, milliseconds as p50 / p90 / p99\n\n"
      "| server | asked | req/s | tok/s | first token | per token | pauses | accepted | memory | errors |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n",
      plan.prompt, plan.shared > 0 ? fmt::format(" ({} shared)", std::min(plan.shared, plan.prompt)) : "",
      plan.answer, plan.rounds, plan.rounds == 1 ? "round" : "rounds");
  for (const LoadResult& result : results) {
    const LoadFigures at = figures_of(result);
    text += fmt::format(
        "| {} | {} | {:.2f} | {:.1f} | {} | {} | {} | {} | {} | {} |\n", plan.targets[result.target].name,
        level_text(plan.levels[result.level]), at.requests_per_s, at.tokens_per_s, ms_text(at.first_token_s),
        ms_text(at.token_s), ms_text(at.pause_s),
        at.acceptance < 0 ? "-" : fmt::format("{:.0f} %", 100 * at.acceptance),
        result.peak_bytes > 0 ? bytes_text(static_cast<size_t>(result.peak_bytes)) : "-", at.failed);
  }
  for (const LoadResult& result : results)
    for (const auto& [error, count] : errors_of(result))
      text += fmt::format("\n{}, {}: {} times: {}\n", plan.targets[result.target].name,
                          level_text(plan.levels[result.level]), count, escaped(error));
  return text;
}

ordered_json load_json(const LoadPlan& plan, const std::vector<LoadResult>& results) {
  ordered_json list = ordered_json::array();
  for (const LoadResult& result : results) {
    const LoadFigures at = figures_of(result);
    const LoadTarget& target = plan.targets[result.target];
    const LoadLevel& level = plan.levels[result.level];
    ordered_json one{
        {"server", target.name},
        {"url", target.url},
        {"model", target.model},
        {"concurrency", level.concurrency > 0 ? ordered_json(level.concurrency) : ordered_json()},
        {"rate", level.concurrency > 0 ? ordered_json() : ordered_json(level.rate)},
        {"answered", at.answered},
        {"failed", at.failed},
        {"seconds", result.seconds},
        {"requests_per_second", at.requests_per_s},
        {"tokens_per_second", at.tokens_per_s},
        {"prompt_tokens", at.prompt_tokens},
        {"cached_tokens", at.cached_tokens},
        {"output_tokens", at.output_tokens},
        {"first_token_seconds", spread_json(at.first_token_s)},
        {"seconds_per_token", spread_json(at.token_s)},
        {"pause_seconds", spread_json(at.pause_s)},
        {"request_seconds", spread_json(at.whole_s)},
        {"acceptance", at.acceptance < 0 ? ordered_json() : ordered_json(at.acceptance)},
        {"peak_memory_bytes", result.peak_bytes > 0 ? ordered_json(result.peak_bytes) : ordered_json()},
        {"errors", errors_of(result)}};
    list.push_back(std::move(one));
  }
  return {{"prompt", plan.prompt},     {"shared", plan.shared}, {"answer", plan.answer},
          {"rounds", plan.rounds},     {"warmup", plan.warmup}, {"seed", plan.seed},
          {"results", std::move(list)}};
}

}  // namespace slip::cli
