// LoadedModel: everything a command needs to run a model. It comes in two steps: open_model() reads headers
// and the tokenizer, which is quick, so that a command can refuse a bad request before load_weights() takes
// time and memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "cli/backend_options.h"
#include "cli/chat_style.h"
#include "text/tokenizer.h"

namespace slip::cli {

/// Members are destroyed from the last to the first, as they depend on each other.
struct LoadedModel {
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // the backend reads embedding rows from it
  std::optional<text::Tokenizer> tokenizer;            // empty when the caller wanted none
  ChatStyle chat;                                      // and this is not known then
  std::unique_ptr<backend::Backend> backend;           // empty until load_weights()
  std::string device_note;  // why --device auto took no GPU; empty where it did or was not asked

  const model::Config& config() const { return checkpoint->config; }
};

/// Throws Error(kBadFile).
LoadedModel open_model(const std::string& folder, bool with_tokenizer);

/// Packs the weights for the device that the options name; shows a bar when it takes longer than a second.
/// Throws Error(kOutOfMemory), before it takes any memory, when the model cannot fit, Error(kUsage) for a
/// device that is not there.
void load_weights(LoadedModel& model, const BackendOptions& options);

/// Where a loaded model runs, for people: "cpu, 2 threads, AVX3_DL, bf16 KV (this machine has no CUDA GPU)".
std::string device_text(const LoadedModel& model);

}  // namespace slip::cli
