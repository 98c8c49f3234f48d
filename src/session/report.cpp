#include "session/report.h"

namespace slip::session {
namespace {

double per_second(int count, double seconds) {
  return count > 0 && seconds > 0 ? count / seconds : 0;
}

}  // namespace

double Report::prompt_rate() const {
  return per_second(stats.prompt_tokens - stats.cached_tokens, stats.prompt_s);
}

// The first token comes out of the prompt's last step, so decoding made the others.
double Report::decode_rate() const {
  return per_second(stats.decoded_tokens, stats.decode_s);
}

double Report::pass_rate() const {
  const int rounds = stats.speculation.rounds;
  return per_second(rounds > 0 ? rounds : stats.decoded_tokens, stats.decode_s);
}

Report measure(Model& model, const engine::Stats& stats) {
  Report report{.stats = stats};
  const int middle = stats.prompt_tokens + stats.output_tokens / 2;
  model.between_steps([&](backend::Backend& backend) {
    report.bytes_per_pass =
        static_cast<double>(backend.streamed_bytes() + backend.kv_layout().bytes_read_at(middle));
    if (report.decode_rate() > 0) report.read_bandwidth = backend.measure_read_bandwidth();
  });
  return report;
}

}  // namespace slip::session
