#include "cli/commands/loading.h"

#include <fmt/format.h>

#include "cli/terminal/progress_bar.h"

namespace slip::cli {

void load_with_bar(session::Model& model, session::LoadOptions options) {
  ProgressBar bar("loading");
  options.progress = [&bar](size_t done, size_t total) { bar.update(done, total); };
  model.load(options);
}

std::string settings_text(const session::Model& model) {
  return fmt::format("device: {}\ndrafting: {}\n", model.device_text(), model.drafting_text());
}

}  // namespace slip::cli
