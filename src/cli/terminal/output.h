// What commands print: stdout carries the answer and nothing else, stderr everything about it. Writing checks
// for errors, so that a full disk is a failure and not a silently shorter file.
#pragma once

#include <string_view>

#include "base/human.h"

namespace slip::cli {

/// Writes to stdout at once, unbuffered. Throws Error(kRuntime) when it cannot.
void write_out(std::string_view text);
/// Writes to stderr; failures are ignored, since there is nobody left to tell.
void write_err(std::string_view text);
bool stdout_is_terminal();
bool stderr_is_terminal();
bool stdin_is_terminal();

}  // namespace slip::cli
