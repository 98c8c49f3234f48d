// MemoryPlan: how long conversations may be and how much memory their caches may take, by arithmetic over the model's
// files and what the machine has free, before anything is loaded. Nothing is ever cut short silently: a context that was
// asked for and does not fit is refused with the numbers.
#pragma once

#include <cstddef>
#include <string>

#include "checkpoint/checkpoint.h"
#include "session/drafters.h"
#include "session/model.h"
#include "session/options.h"

namespace slip::server {

struct MemoryPlan {
  int context = 0;
  size_t cache_bytes = 0;  // for all caches together
  bool cuda = false;       // a GPU is expected to take the model
  /// How many conversations of so many tokens the caches hold at once.
  int conversations(int tokens) const;

  // Bytes of one conversation, as the cache counts them: a part that every one needs, and one per token.
  double first_bytes = 0, token_bytes = 0;
};

struct MemoryWish {
  int context = 0;         // 0 = the largest of 32k to 256k that fits
  size_t cache_bytes = 0;  // 0 = nine tenths of what is free
  session::DraftMemory drafters = {};
  size_t tower = 0;       // of a vision tower on the CPU, for which the caches leave room
  size_t free_bytes = 0;  // 0 = ask the machine
};

/// Throws Error when the context does not fit or the model was not made for it.
MemoryPlan plan_memory(const checkpoint::Checkpoint& checkpoint, const session::BackendOptions& backend,
                       const MemoryWish& wish);

struct DraftedPlan {
  MemoryPlan memory;
  session::DraftOptions draft;  // what is to be loaded
  std::string left_out = {};    // a sentence, when a drafter was found and is not used
};

/// Opens the model's drafters and plans with them. Beside a model that leaves them no room, a drafter that was found is
/// left out, and one that was named is an Error.
DraftedPlan plan_with_drafters(session::Model& model, const session::BackendOptions& backend,
                               const session::DraftOptions& draft, MemoryWish wish);

}  // namespace slip::server
