// The flags of `serve`, by topic, and where else they may be set: a file of `name = value` lines, and SLIPSTREAM_NAME in
// the environment. The command line overrules the environment, the environment the file.
#pragma once

#include "cli/commands/command.h"
#include "server/serve_options.h"

namespace slip::cli {

extern const Command serve_command;

/// False when help was asked for and has been printed. Throws Error(kUsage).
bool parse_serve(const Arguments& args, server::ServeOptions& options);

/// What stands in such a file, as arguments. `name` stands for it in messages.
Arguments file_arguments(const std::string& text, const std::string& name);

}  // namespace slip::cli
