#include "cli/flags/model_options.h"

#include <fmt/format.h>

#include "hub/local.h"
#include "session/default_model.h"

namespace slip::cli {

void add_model_option(Parser& parser, ModelOptions& options) {
  parser.text({"-m,--model", "MODEL", "folder, or name in the Hugging Face cache (default: models/tiny)"},
              options.model);
  parser.flag("--pull", options.pull, "download the model if it is not here");
}

std::string default_model_note(const ModelOptions& options) {
  if (!options.model.empty()) return "";
  return fmt::format("no model named: using the demonstration model in {}\n", session::kDefaultModel);
}

std::string model_folder(const ModelOptions& options) {
  return options.model.empty() ? session::default_model() : hub::resolve_model(options.model);
}

}  // namespace slip::cli
