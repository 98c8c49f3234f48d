// Loading a model for a command: a bar while it takes long, and what is used, said once.
#pragma once

#include <string>

#include "session/model.h"

namespace slip::cli {

/// Loads with a progress bar.
void load_with_bar(session::Model& model, session::LoadOptions options);

/// "device: ...\ndrafting: ...\n"
std::string settings_text(const session::Model& model);

}  // namespace slip::cli
