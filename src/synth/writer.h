// Writes a checkpoint as a folder that open() and other engines read: safetensors (one file, or shards with
// an index), config.json and generation_config.json, and for a model a made-up tokenizer and a chat template
// (synthetic_tokenizer.h), so that it can be talked to.
//
// Bytes go out in pieces, so memory stays at a few MiB whatever the tensor. Everything is written to a folder
// `.slipstream-partial` inside the target first and moved into place at the end, config.json last: an aborted
// run never leaves something that opens as a checkpoint, a failed one leaves nothing at all, and the next run
// clears up after a killed one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "synth/synthetic.h"
#include "synth/writer_config.h"

namespace slip::synth {

struct WriteOptions {
  // Tensor bytes per file; 0 = one file. A tensor larger than this gets a file of its own.
  size_t shard_bytes = 0;
  ConfigSpelling spelling = ConfigSpelling::kPerLayer;
  bool overwrite = false;  // replace the checkpoint files in a folder that is not empty; other files stay
  // Called after every piece with bytes written and bytes in all. What it throws aborts the write cleanly.
  std::function<void(size_t done, size_t total)> progress{};
};

/// Throws Error: kUsage when the folder is in use, kRuntime when the disk is too small, full or unwritable.
void write_folder(const Checkpoint& checkpoint, const std::string& folder, const WriteOptions& options = {});

/// The same for an assistant, under the names and in the config.json of the published ones.
void write_assistant(const AssistantCheckpoint& assistant, const std::string& folder,
                     const WriteOptions& options = {});

/// Throws what writing into this folder would throw before it began: it is in use or not a folder.
void check_folder(const std::string& folder, const WriteOptions& options);

}  // namespace slip::synth
