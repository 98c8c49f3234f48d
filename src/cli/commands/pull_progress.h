// How a download tells what it does: a bar for each file and one for all on a terminal, a line every ten seconds
// elsewhere, or a JSON object a line on stdout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/pulling.h"
#include "hub/listener.h"

namespace slip::cli {

/// The lines of the bars: unfinished files, as many as `rows` leaves room for, and the sum. A pure function.
std::vector<std::string> bar_lines(const hub::Progress& progress, int rows, int columns);

/// "45 % 12.3 GiB of 46.5 GiB, 85 MiB/s, 6 min 40 s left"
std::string sum_text(const hub::Progress& progress);

std::unique_ptr<hub::Listener> make_pull_progress(Output output);

}  // namespace slip::cli
