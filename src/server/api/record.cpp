#include "server/api/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace slip::server::api {
namespace {

double rate(int count, double seconds) {
  return count > 0 && seconds > 0 ? count / seconds : 0;
}

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

/// Who guessed, "mtp" or "mtp+suffix"; "none" where nobody did.
std::string drafters_text(const speculate::Statistics& statistics) {
  std::string names;
  for (const auto& by : statistics.by) {
    if (by.name == nullptr || by.drafted == 0) continue;
    if (!names.empty()) names += "+";
    names += by.name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace

RequestRecord::Totals RequestRecord::totals() const {
  Totals sum;
  for (size_t i = 0; i < replies.size(); ++i) {
    const engine::Stats& stats = replies[i].stats;
    if (i % static_cast<size_t>(choices) == 0) {
      sum.prompt += stats.prompt_tokens;
      sum.cached += stats.cached_tokens;
    }
    if (!no_answer) sum.output += stats.output_tokens;
    sum.reasoning += stats.reasoning_tokens;
    sum.queued_s = std::max(sum.queued_s, stats.queued_s);
    sum.first_token_s = std::max(sum.first_token_s, stats.first_token_s);
    sum.prompt_s = std::max(sum.prompt_s, stats.prompt_s);
    sum.decode_s = std::max(sum.decode_s, stats.decode_s);
    sum.decoded += stats.decoded_tokens;
    sum.speculation.add(stats.speculation);
  }
  return sum;
}

Json usage_json(const RequestRecord& record) {
  const RequestRecord::Totals sum = record.totals();
  return {{"prompt_tokens", sum.prompt},
          {"completion_tokens", sum.output},
          {"total_tokens", sum.prompt + sum.output},
          {"prompt_tokens_details", {{"cached_tokens", sum.cached}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", sum.reasoning},
            {"accepted_prediction_tokens", 0},
            {"rejected_prediction_tokens", 0}}}};
}

Json timings_json(const RequestRecord& record) {
  const RequestRecord::Totals sum = record.totals();
  const auto& speculation = sum.speculation;
  Json drafters = Json::object();
  for (const auto& by : speculation.by) {
    if (by.name != nullptr) drafters[by.name] = {{"draft_n", by.drafted}, {"draft_n_accepted", by.accepted}};
  }
  return {{"queue_ms", rounded(sum.queued_s * 1000)},
          {"prompt_n", sum.prompt - sum.cached},
          {"prompt_ms", rounded(sum.prompt_s * 1000)},
          {"prompt_per_second", rounded(rate(sum.prompt - sum.cached, sum.prompt_s))},
          {"first_token_ms", rounded(sum.first_token_s * 1000)},
          {"predicted_n", sum.output},
          {"predicted_ms", rounded(sum.decode_s * 1000)},
          {"predicted_per_second", rounded(rate(sum.decoded, sum.decode_s))},
          {"tokens_per_pass", rounded(speculation.tokens_per_pass())},
          {"draft_n", speculation.drafted},
          {"draft_n_accepted", speculation.accepted},
          {"acceptance", rounded(speculation.acceptance())},
          {"drafters", std::move(drafters)}};
}

std::string log_line(const RequestRecord& record, bool json) {
  const RequestRecord::Totals sum = record.totals();
  const double speed = rate(sum.decoded, sum.decode_s);
  if (json) {
    Json line{{"id", record.id}, {"route", record.route}, {"status", record.status}};
    if (record.generated) {
      line.update(Json{{"tokens_in", sum.prompt},
                       {"cached", sum.cached},
                       {"out", sum.output},
                       {"first_token_s", rounded(sum.first_token_s)},
                       {"tok_per_s", rounded(speed)},
                       {"drafter", drafters_text(sum.speculation)},
                       {"drafted", sum.speculation.drafted},
                       {"accepted", sum.speculation.accepted}});
    }
    line["seconds"] = rounded(record.seconds);
    if (!record.error.empty()) line["error"] = record.error;
    return to_text(line);
  }
  std::string line = fmt::format("{} {} {}", record.id, record.route, record.status);
  if (record.generated) {
    line +=
        fmt::format(" in {} cached {} out {} first {:.3f}s {:.1f} tok/s drafter {} drafted {} accepted {}",
                    sum.prompt, sum.cached, sum.output, sum.first_token_s, speed,
                    drafters_text(sum.speculation), sum.speculation.drafted, sum.speculation.accepted);
  }
  if (!record.error.empty()) line += " error " + record.error;
  return line;
}

}  // namespace slip::server::api
