#include "cli/statistics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace slip::cli {
namespace {

/// Three digits are what a measurement is good for.
std::string rate_text(double rate) {
  return rate < 9.995   ? fmt::format("{:.2f}", rate)
         : rate < 99.95 ? fmt::format("{:.1f}", rate)
                        : fmt::format("{:.0f}", rate);
}

double per_second(int count, double seconds) {
  return count > 0 && seconds > 0 ? count / seconds : 0;
}

}  // namespace

double SpeedReport::prompt_rate() const {
  return per_second(stats.prompt_tokens, stats.prompt_s);
}
// The first token comes out of the prompt's last step, so decoding made the others.
double SpeedReport::decode_rate() const {
  return per_second(stats.output_tokens - 1, stats.decode_s);
}

std::string statistics_text(const SpeedReport& report) {
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

nlohmann::ordered_json statistics_json(const SpeedReport& report) {
  const engine::Stats& stats = report.stats;
  return {
      {"prompt_tokens", stats.prompt_tokens},
      {"output_tokens", stats.output_tokens},
      {"first_token_seconds", stats.first_token_s},
      {"prompt_seconds", stats.prompt_s},
      {"decode_seconds", stats.decode_s},
      {"prompt_tokens_per_second", report.prompt_rate()},
      {"decode_tokens_per_second", report.decode_rate()},
      {"bytes_per_token", report.bytes_per_token},
      {"decode_bytes_per_second", report.decode_bandwidth()},
      {"read_bytes_per_second", report.read_bandwidth},
  };
}

}  // namespace slip::cli
