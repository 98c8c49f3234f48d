#include "server/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/human.h"
#include "session/device.h"
#include "session/model_report.h"
#include "session/system_info.h"

namespace slip::server {
namespace {

constexpr int kContexts[] = {1 << 18, 1 << 17, 1 << 16, 1 << 15};
constexpr double kShare = 0.9;  // of free memory: the rest is the system's and our own estimate's
constexpr size_t kMost = size_t{1} << 46;

/// What the first GPU has free, found by asking whether so much would fit; 0 without a GPU.
size_t free_on_gpu(const session::BackendOptions& backend) {
  if (backend.device == session::DeviceKind::kCpu) return 0;
  session::BackendOptions any = backend;
  any.device = session::DeviceKind::kAuto;
  size_t fits = 0;
  for (size_t step = kMost; step >= size_t{1} << 24; step /= 2) {
    if (session::choose_device(any, fits + step).cuda) fits += step;
  }
  return fits;
}

}  // namespace

int MemoryPlan::conversations(int tokens) const {
  const double one = first_bytes + token_bytes * tokens;
  const double count = one > 0 ? static_cast<double>(cache_bytes) / one : 0;
  return static_cast<int>(std::min<double>(count, std::numeric_limits<int>::max()));
}

MemoryPlan plan_memory(const checkpoint::Checkpoint& checkpoint, const session::BackendOptions& backend,
                       const MemoryWish& wish) {
  const model::Config& config = checkpoint.config;
  const session::ModelReport report = session::report_on(checkpoint);
  const auto needed = [&](int64_t context) {
    return session::memory_needed(report, config, context, backend.kv);
  };
  const int most = config.max_positions;
  if (wish.context > most)
    fail_usage("--context must be a whole number from 1 to {} for this model, not {}", most, wish.context);

  MemoryPlan plan;
  const size_t model = needed(0) + wish.drafters.weights;
  const size_t on_gpu = wish.free_bytes > 0 ? 0 : free_on_gpu(backend);
  plan.cuda = on_gpu > model;
  const size_t available = wish.free_bytes > 0 ? wish.free_bytes
                           : plan.cuda         ? on_gpu
                                               : session::memory_info().available;
  const size_t held = model + (plan.cuda ? 0 : wish.tower);
  const auto cache_of = [&](int64_t context) {
    const size_t drafters = wish.drafters.sequence_at ? wish.drafters.sequence_at(context) : 0;
    return needed(context) - needed(0) + drafters;
  };
  const int probe = std::min(most, 1 << 15);
  plan.token_bytes = static_cast<double>(cache_of(probe) - cache_of(probe / 2)) / (probe - probe / 2);
  plan.first_bytes = std::max(0.0, static_cast<double>(cache_of(probe)) - plan.token_bytes * probe);

  const auto share = static_cast<size_t>(static_cast<double>(available) * kShare);
  plan.cache_bytes = wish.cache_bytes > 0 ? wish.cache_bytes : share > held ? share - held : 0;
  if (available == 0 && wish.cache_bytes == 0)
    plan.cache_bytes = ~size_t{0};  // unknown: whatever the system gives
  const auto fits = [&](int context) { return cache_of(context) <= plan.cache_bytes; };
  if (wish.context > 0) {
    if (!fits(wish.context)) {
      fail(ErrorKind::kOutOfMemory,
           "a context of {} tokens needs {} for its cache, but of {} free memory the model leaves {}; lower "
           "--context",
           wish.context, bytes_text(cache_of(wish.context)), bytes_text(available),
           bytes_text(plan.cache_bytes));
    }
    plan.context = wish.context;
    return plan;
  }
  for (const int context : kContexts) {
    plan.context = std::min(context, most);
    if (fits(plan.context)) return plan;
  }
  fail(
      ErrorKind::kOutOfMemory,
      "a context of {} tokens needs {} for its cache, but of {} free memory the model leaves {}; set a lower "
      "--context, or use a model with fewer bits or parameters",
      plan.context, bytes_text(cache_of(plan.context)), bytes_text(available), bytes_text(plan.cache_bytes));
}

DraftedPlan plan_with_drafters(session::Model& model, const session::BackendOptions& backend,
                               const session::DraftOptions& draft, MemoryWish wish) {
  model.open_drafters(draft);
  wish.drafters = model.draft_memory();
  try {
    return {plan_memory(model.checkpoint(), backend, wish), draft};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory || model.drafter_paths().empty()) throw;
    const std::string needs = fmt::format("the drafter {} needs {}", path_text(model.drafter_paths().front()),
                                          bytes_text(wish.drafters.weights));
    if (!draft.models.empty() || draft.kind == session::Drafting::kMtp)
      fail(ErrorKind::kOutOfMemory, "{}, and with it {}", needs, error.what());
    DraftedPlan plan{{}, draft, needs + ", which leaves too little for caches: it is left out"};
    plan.draft.kind = session::Drafting::kSuffix;
    model.open_drafters(plan.draft);
    wish.drafters = model.draft_memory();
    plan.memory = plan_memory(model.checkpoint(), backend, wish);
    return plan;
  }
}

}  // namespace slip::server
