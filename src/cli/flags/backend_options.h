// The options that say how a model is run, shared by every command that runs one.
#pragma once

#include "cli/flags/parser.h"
#include "session/options.h"

namespace slip::cli {

using session::BackendOptions;

/// Adds --device, -t/--threads, --activations and --kv.
void add_backend_options(Parser& parser, BackendOptions& options);

/// Adds --device alone.
void add_device_option(Parser& parser, BackendOptions& options, const std::string& help);

}  // namespace slip::cli
