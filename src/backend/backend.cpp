#include "backend/backend.h"

#include <algorithm>

#include "base/error.h"

namespace slip::backend {

void Backend::set_taps(std::span<const int>) {
  fail(ErrorKind::kRuntime, "this backend ({}) cannot tap layers for a block drafter", description());
}

std::unique_ptr<Assistant> Backend::load_assistant(const model::AssistantConfig&,
                                                   const model::AssistantWeights&, const DraftOptions&) {
  fail(ErrorKind::kRuntime, "this backend ({}) cannot run assistants", description());
}

std::unique_ptr<BlockDrafter> Backend::load_dflash(const model::DflashConfig&, const model::DflashWeights&,
                                                   const DraftOptions&) {
  fail(ErrorKind::kRuntime, "this backend ({}) cannot run block drafters", description());
}

std::unique_ptr<Encoder> Backend::load_vision(const model::VisionConfig&, const model::VisionWeights&) {
  return nullptr;
}

std::vector<Backend::PhaseTime> phase_times_of(const model::Program& program,
                                               std::span<const double> seconds) {
  std::vector<Backend::PhaseTime> times;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const model::Phase& phase = program.phases[i];
    times.push_back({.name = model::name_of(phase.kind),
                     .layer = phase.layer,
                     .seconds = seconds[i],
                     .bytes = phase.bytes});
  }
  return times;
}

std::vector<Backend::PhaseTime> by_kind(std::span<const Backend::PhaseTime> times) {
  std::vector<Backend::PhaseTime> kinds;
  for (const Backend::PhaseTime& time : times) {
    auto at = std::find_if(kinds.begin(), kinds.end(),
                           [&](const Backend::PhaseTime& kind) { return kind.name == time.name; });
    if (at == kinds.end()) at = kinds.insert(kinds.end(), {.name = time.name, .within = time.within});
    at->seconds += time.seconds;
    at->bytes += time.bytes;
  }
  return kinds;
}

}  // namespace slip::backend
