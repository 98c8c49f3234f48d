#include "backend/backend.h"

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

}  // namespace slip::backend
