#include "cli/loaded_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/device.h"
#include "cli/model_report.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/system_info.h"

namespace slip::cli {
namespace {

// A model that is swapped or kills its neighbours helps nobody; a cache of one page is the least it needs.
void require_memory(const checkpoint::Checkpoint& checkpoint, const ModelReport& report,
                    kv::Storage storage) {
  const size_t available = memory_info().available;
  const size_t needed = memory_needed(report, checkpoint.config, kv::kPagePositions, storage);
  if (available == 0 || needed <= available) return;
  fail(ErrorKind::kOutOfMemory,
       "{} needs {} of memory and {} are available; close other programs, or use a model with fewer bits or "
       "parameters",
       checkpoint.path, bytes_text(needed), bytes_text(available));
}

}  // namespace

LoadedModel open_model(const std::string& folder, bool with_tokenizer) {
  LoadedModel model;
  model.checkpoint = checkpoint::open(folder);
  if (with_tokenizer) {
    model.tokenizer = text::Tokenizer::load(folder + "/tokenizer.json");
    model.chat = chat_style(folder, model.config());
  }
  return model;
}

void load_weights(LoadedModel& model, const BackendOptions& options) {
  const checkpoint::Checkpoint& checkpoint = *model.checkpoint;
  const ModelReport report = report_on(checkpoint);
  const kv::Storage storage = cpu_options(options).kv_storage;
  Device device =
      choose_device(options, memory_needed(report, checkpoint.config, kv::kPagePositions, storage));
  if (!device.cuda) require_memory(checkpoint, report, storage);
  ProgressBar bar("loading");
  model.backend = load_on(device, checkpoint.config, checkpoint.weights, options,
                          [&bar, total = report.packed_bytes](double share) {
                            bar.update(static_cast<size_t>(share * static_cast<double>(total)), total);
                          });
  if (options.device == "auto") model.device_note = device.note;
}

std::string device_text(const LoadedModel& model) {
  const std::string text = model.backend->description();
  return model.device_note.empty() ? text : fmt::format("{} ({})", text, model.device_note);
}

}  // namespace slip::cli
