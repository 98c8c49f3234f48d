#include "cli/commands/bench_speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "cli/commands/bench_run.h"
#include "cli/terminal/report_text.h"
#include "engine/engine.h"

namespace slip::cli {
namespace {

// Prompts begin here, well above the ids with a meaning of their own.
constexpr int kFirstToken = 1000;
// Long enough that attention and cache are those of a real answer, short enough to wait for.
constexpr int kPrompt = 64;

struct Run {
  std::vector<int> tokens;
  engine::Stats stats;
  double rate() const { return stats.decoded_tokens / stats.decode_s; }
};

Run decode(backend::Backend& backend, speculate::Speculator* speculator, std::vector<int> prompt,
           const sample::Options& sampling, int tokens, const std::function<bool()>& interrupted) {
  Run run;
  std::string error;
  engine::Engine engine(backend, {.sequences = 1}, speculator);
  engine::Request request;
  request.prompt = std::move(prompt);
  request.sampling = sampling;
  request.max_tokens = tokens;
  request.sink = [&](const engine::Delta& delta) {
    if (delta.token >= 0) run.tokens.push_back(delta.token);
    if (delta.stats != nullptr) run.stats = *delta.stats;
    error = delta.error;
  };
  engine.submit(std::move(request));
  while (engine.step()) {
    if (interrupted()) fail(ErrorKind::kRuntime, "the benchmark was interrupted");
  }
  if (!error.empty()) fail(ErrorKind::kRuntime, "{}", error);
  return run;
}

struct Task {
  std::string name;
  std::vector<int> prompt;
  sample::Options sampling;
};

std::vector<int> counting(int first, int count) {
  std::vector<int> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Which guesses are right depends on the tokens, so every repetition has others.
std::vector<Task> tasks_for(int tokens, int first) {
  sample::Options sampled;
  sampled.temperature = 1;
  sampled.top_k = 64;
  sampled.top_p = 0.95f;
  sampled.seed = 7;
  // The answer to the last one is in its prompt.
  std::vector<int> copy = counting(first, tokens + 16);
  copy.push_back(first);
  copy.push_back(first + 1);
  return {{"greedy", counting(first, kPrompt), {}},
          {"sampled, temperature 1, top-k 64, top-p 0.95", counting(first, kPrompt), sampled},
          {"copying the prompt, greedy", copy, {}}};
}

int first_token(int vocab, int tokens, int repeat) {
  const int room = vocab - 2 * tokens - kPrompt;
  if (room <= kFirstToken) return std::max(2, std::min(room, 16));  // a tiny shape
  return kFirstToken + static_cast<int>(int64_t{repeat} * 7919 % (room - kFirstToken));
}

}  // namespace

std::vector<SpeculationResult> run_speculation(backend::Backend& backend, session::Drafters& drafters,
                                               const SpeculationPlan& plan,
                                               const std::function<bool()>& interrupted) {
  std::vector<SpeculationResult> results;
  for (size_t kind = 0; kind < tasks_for(1, 0).size(); ++kind) {
    SpeculationResult result;
    std::vector<double> plain, drafted, ratios;
    for (int i = 0; i <= plan.repeats; ++i) {
      const int first = first_token(backend.config().vocab, plan.tokens, i);
      const Task task = tasks_for(plan.tokens, first)[kind];
      const auto run = [&](speculate::Speculator* speculator) {
        return decode(backend, speculator, task.prompt, task.sampling, plan.tokens, interrupted);
      };
      const Run without = run(nullptr);
      const Run with = run(drafters.speculator.get());
      if (with.tokens != without.tokens) {
        fail(ErrorKind::kRuntime,
             "speculation changed the output of task '{}'; this is a bug, please report it", task.name);
      }
      const auto& failures = drafters.speculator->failures();
      if (!failures.empty())
        fail(ErrorKind::kRuntime, "{}; without it the figures mean nothing", failures[0]);
      result.task = task.name;
      if (i == 0) continue;
      plain.push_back(without.rate());
      drafted.push_back(with.rate());
      ratios.push_back(with.rate() / without.rate());
      result.statistics.add(with.stats.speculation);
    }
    result.plain = median(plain);
    result.drafted = median(drafted);
    result.ratio = median(ratios);
    result.ratio_low = *std::min_element(ratios.begin(), ratios.end());
    result.ratio_high = *std::max_element(ratios.begin(), ratios.end());
    results.push_back(result);
  }
  return results;
}

nlohmann::ordered_json speculation_json(const std::vector<SpeculationResult>& results) {
  auto out = nlohmann::ordered_json::array();
  for (const SpeculationResult& at : results) {
    out.push_back({{"task", at.task},
                   {"plain_tokens_per_second", at.plain},
                   {"drafted_tokens_per_second", at.drafted},
                   {"ratio", at.ratio},
                   {"ratio_low", at.ratio_low},
                   {"ratio_high", at.ratio_high},
                   {"speculation", speculation_json(at.statistics)}});
  }
  return out;
}

std::string speculation_table(const std::vector<SpeculationResult>& results) {
  std::string text =
      "\n| decoding | plain tok/s | drafted tok/s | ratio (low to high) | tokens per pass | accepted at 1, "
      "2, ... | "
      "time drafting |\n|---|---|---|---|---|---|---|\n";
  for (const SpeculationResult& at : results) {
    const speculate::Statistics& all = at.statistics;
    std::string accepted;
    for (size_t i = 0; i < all.drafted_at.size() && all.drafted_at[i] > 0; ++i) {
      accepted +=
          fmt::format("{}{:.0f} %", i == 0 ? "" : ", ", 100.0 * all.accepted_at[i] / all.drafted_at[i]);
    }
    const double busy = all.draft_s + all.verify_s;
    text += fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} ({:.2f} to {:.2f}) | {:.2f} | {} | {:.1f} % |\n",
                        at.task, at.plain, at.drafted, at.ratio, at.ratio_low, at.ratio_high,
                        all.tokens_per_pass(), accepted, busy > 0 ? 100 * all.draft_s / busy : 0.0);
    text += fmt::format("\n  last choice: {}\n", speculate::sentence(all.decision));
  }
  return text;
}

}  // namespace slip::cli
