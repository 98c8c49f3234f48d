#include "server/api/admission.h"

#include <algorithm>
#include <cmath>

namespace slip::server::api {
namespace {

constexpr int kLongestWait = 120;

double seconds_for(double tokens, double rate) {
  return rate > 0 ? tokens / rate : 0;
}

}  // namespace

int retry_after(const engine::Load& load, const Backlog& backlog) {
  // All of it done, shared out over those who wait for it: the mean time until one of them ends.
  const double all = seconds_for(backlog.prompt_tokens, load.prompt_rate) +
                     seconds_for(backlog.answer_tokens, load.decode_rate);
  const double one = all / std::max(backlog.replies, 1);
  return static_cast<int>(std::clamp(std::ceil(one), 1.0, double{kLongestWait}));
}

void admit(const AdmissionLimits& limits, const engine::Load& load, const Backlog& backlog,
           const Newcomer& newcomer) {
  const int room = load.sequences + limits.queue;
  if (newcomer.replies > room)
    fail_field("n", "{} replies at once are more than this server takes; ask for at most {}",
               newcomer.replies, room);
  if (backlog.replies + newcomer.replies > room) {
    ApiError full(429, "queue_full", "the server is busy; try again later");
    full.retry_after_seconds = retry_after(load, backlog);
    throw full;
  }
  if (!newcomer.deadline_s || load.prompt_rate <= 0) return;
  const double first_token = (backlog.prompt_tokens + newcomer.prompt_tokens) / load.prompt_rate;
  if (first_token <= *newcomer.deadline_s) return;
  ApiError late(
      503, "deadline_cannot_be_met",
      fmt::format("the first token would come after about {:.0f} s, past the request's deadline of {:g} s",
                  std::ceil(newcomer.prompt_tokens / load.prompt_rate), *newcomer.deadline_s));
  late.retry_after_seconds = retry_after(load, backlog);
  throw late;
}

}  // namespace slip::server::api
