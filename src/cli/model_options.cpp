#include "cli/model_options.h"

#include "base/error.h"
#include "checkpoint/hub.h"

namespace slip::cli {

void add_model_option(Parser& parser, ModelOptions& options, bool has_default) {
  parser.text({"-m,--model", "MODEL",
               has_default ? "folder, or name in the Hugging Face cache (default: models/tiny)"
                           : "checkpoint folder, or a name in the Hugging Face cache"},
              options.model);
}

std::string model_folder(const ModelOptions& options) {
  if (options.model.empty()) fail_usage("no model is given; use -m MODEL");
  return checkpoint::resolve_model(options.model);
}

}  // namespace slip::cli
