#include "cli/terminal/report_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace slip::cli {

std::string rate_text(double rate) {
  return rate < 9.995   ? fmt::format("{:.2f}", rate)
         : rate < 99.95 ? fmt::format("{:.1f}", rate)
                        : fmt::format("{:.0f}", rate);
}

std::string statistics_text(const session::Report& report) {
  const engine::Stats& stats = report.stats;
  std::string text = fmt::format("prompt {} tokens", stats.prompt_tokens);
  if (report.prompt_rate() > 0) text += fmt::format(", {} tok/s", rate_text(report.prompt_rate()));
  text += fmt::format(" | answer {} tokens", stats.output_tokens);
  if (const double rate = report.decode_rate(); rate > 0) {
    const double bandwidth = report.decode_bandwidth();
    text += fmt::format(", {} tok/s, {} GB/s", rate_text(rate), rate_text(bandwidth / 1e9));
    if (report.read_bandwidth > 0) {
      text += fmt::format(", {:.0f} % of {} GB/s", 100 * bandwidth / report.read_bandwidth,
                          rate_text(report.read_bandwidth / 1e9));
    }
  }
  if (stats.output_tokens > 0) text += fmt::format(" | first token {:.2f} s", stats.first_token_s);
  return text;
}

std::string acceptance_text(const speculate::Statistics& all) {
  if (all.rounds == 0) return "";
  std::string text = fmt::format("{} passes, {:.2f} tokens per pass", all.rounds, all.tokens_per_pass());
  if (all.drafted == 0) return text + ", nothing guessed";
  text += fmt::format(" | {} of {} guesses accepted (", all.accepted, all.drafted);
  for (size_t i = 0; i < all.drafted_at.size() && all.drafted_at[i] > 0; ++i) {
    text += fmt::format("{}{}: {:.0f} %", i == 0 ? "" : ", ", i + 1,
                        100.0 * all.accepted_at[i] / all.drafted_at[i]);
  }
  text += ")";
  for (const auto& by : all.by) {
    if (by.name == nullptr) continue;
    text += fmt::format(" | {} in {} passes, {} of {}", by.name, by.rounds, by.accepted, by.drafted);
  }
  return text;
}

std::string speculation_text(const speculate::Statistics& all) {
  std::string text = acceptance_text(all);
  if (text.empty()) return "";
  if (all.drafted == 0) return text + ": " + speculate::sentence(all.decision);
  const double busy = all.draft_s + all.verify_s;
  if (busy > 0) {
    text += fmt::format(" | drafting {:.1f} %, verifying {:.1f} % of the time", 100 * all.draft_s / busy,
                        100 * all.verify_s / busy);
  }
  if (all.speedup() > 0) text += fmt::format(" | {:.2f} times plain decoding", all.speedup());
  return text + " | last choice: " + speculate::sentence(all.decision);
}

nlohmann::ordered_json speculation_json(const speculate::Statistics& all) {
  nlohmann::ordered_json out = {{"passes", all.rounds},
                                {"tokens_per_pass", all.tokens_per_pass()},
                                {"drafted", all.drafted},
                                {"accepted", all.accepted},
                                {"drafted_at", nlohmann::ordered_json::array()},
                                {"accepted_at", nlohmann::ordered_json::array()},
                                {"drafters", nlohmann::ordered_json::array()},
                                {"draft_seconds", all.draft_s},
                                {"verify_seconds", all.verify_s},
                                {"times_plain", all.speedup()},
                                {"last_choice", speculate::sentence(all.decision)}};
  for (size_t i = 0; i < all.drafted_at.size() && all.drafted_at[i] > 0; ++i) {
    out["drafted_at"].push_back(all.drafted_at[i]);
    out["accepted_at"].push_back(all.accepted_at[i]);
  }
  for (const auto& by : all.by) {
    if (by.name == nullptr) continue;
    out["drafters"].push_back(
        {{"name", by.name}, {"passes", by.rounds}, {"drafted", by.drafted}, {"accepted", by.accepted}});
  }
  return out;
}

nlohmann::ordered_json statistics_json(const session::Report& report) {
  const engine::Stats& stats = report.stats;
  return {
      {"prompt_tokens", stats.prompt_tokens},
      {"output_tokens", stats.output_tokens},
      {"first_token_seconds", stats.first_token_s},
      {"prompt_seconds", stats.prompt_s},
      {"decode_seconds", stats.decode_s},
      {"prompt_tokens_per_second", report.prompt_rate()},
      {"decode_tokens_per_second", report.decode_rate()},
      {"bytes_per_pass", report.bytes_per_pass},
      {"decode_bytes_per_second", report.decode_bandwidth()},
      {"read_bytes_per_second", report.read_bandwidth},
      {"speculation", speculation_json(stats.speculation)},
  };
}

}  // namespace slip::cli
