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

std::vector<Backend::PhaseTime> by_kind(const model::Program& program, std::span<const double> seconds) {
  std::vector<Backend::PhaseTime> times;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const char* name = model::name_of(program.phases[i].kind);
    auto at = std::find_if(times.begin(), times.end(),
                           [&](const Backend::PhaseTime& time) { return time.name == name; });
    if (at == times.end()) at = times.insert(times.end(), Backend::PhaseTime{.name = name});
    at->seconds += seconds[i];
    at->bytes += program.phases[i].bytes;
  }
  return times;
}

}  // namespace slip::backend
