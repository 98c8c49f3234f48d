// Quantising a drafter while it is loaded: its float matrices become affine ones of 4 or 8 bits in memory, by
// MLX's rule. A drafter is read once per guess, so its bytes are its cost, and a worse guess costs a little
// time but never output. Groups of 64 columns, or 32 where 64 does not divide them; matrices that neither
// divides stay as they are, and so do those that are affine already. One row at a time: memory grows by the
// result only.
#pragma once

#include "checkpoint/assistant.h"
#include "checkpoint/dflash.h"

namespace slip::checkpoint {

/// `bits` is 4 or 8, else Error(kUsage). The new tensors belong to the checkpoint; `format` says what was
/// done.
void requantise(AssistantCheckpoint& checkpoint, int bits);
void requantise(DflashCheckpoint& checkpoint, int bits);

}  // namespace slip::checkpoint
