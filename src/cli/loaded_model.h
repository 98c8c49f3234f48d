// LoadedModel: everything a command needs to run a model. It comes in two steps: open_model() reads headers
// and the tokenizer, which is quick, so that a command can refuse a bad request before load_weights() takes
// time and memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "checkpoint/checkpoint.h"
#include "cli/chat_style.h"
#include "text/tokenizer.h"

namespace slip::cli {

/// Members are destroyed from the last to the first, as they depend on each other.
struct LoadedModel {
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // the backend reads embedding rows from it
  std::optional<text::Tokenizer> tokenizer;            // empty when the caller wanted none
  ChatStyle chat;                                      // and this is not known then
  std::unique_ptr<backend::Backend> backend;           // empty until load_weights()

  const model::Config& config() const { return checkpoint->config; }
};

/// Throws Error(kBadFile).
LoadedModel open_model(const std::string& folder, bool with_tokenizer);

/// Packs the weights; shows a bar when it takes longer than a second (options.progress is replaced). Throws
/// Error(kOutOfMemory), before it takes any memory, when the model cannot fit.
void load_weights(LoadedModel& model, backend::cpu::CpuOptions options);

}  // namespace slip::cli
