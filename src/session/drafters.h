// Drafters: everything speculation needs beside a model. As with the model it comes in two steps: open reads
// headers and refuses what does not fit, load takes time and memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "checkpoint/assistant.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dflash.h"
#include "session/options.h"
#include "speculate/speculator.h"

namespace slip::session {

/// Members are destroyed from the last to the first, as they depend on each other.
struct Drafters {
  std::unique_ptr<checkpoint::AssistantCheckpoint> assistant;
  std::unique_ptr<checkpoint::DflashCheckpoint> dflash;
  std::unique_ptr<backend::Assistant> assistant_network;
  std::unique_ptr<backend::BlockDrafter> dflash_network;
  std::unique_ptr<speculate::Speculator> speculator;  // null when nobody drafts
  // For people: "mtp (gemma-4-E2B-it-assistant, beside the model, bf16 rounded to 8 bits) and suffix, depth
  // auto". Says also why there is no assistant.
  std::string description;
  bool suffix = false;  // text is looked up, too
};

/// Bytes that drafters take beside the model: weights, and what each sequence keeps for them.
struct DraftMemory {
  size_t weights = 0;
  std::function<size_t(int64_t tokens)> sequence_at = {};
};
/// Of drafters that were opened, by arithmetic over their files.
DraftMemory draft_memory(const Drafters& drafters);

/// `model` is what -m named, `folder` where it was found. Throws Error.
Drafters open_drafters(const DraftOptions& options, const std::string& model, const std::string& folder,
                       const checkpoint::Checkpoint& target);

/// Loads what was opened for as many sequences at once. Calls set_taps() on the backend, so nothing may have
/// run on it.
void load_drafters(Drafters& drafters, const DraftOptions& options, backend::Backend& backend, int sequences);

}  // namespace slip::session
