// What --show-drafts paints: accepted guesses by drafter, the model's own tokens plain, rejected guesses
// struck out. Escape codes go around whole pieces, so taking them out gives the text back.
#pragma once

#include <functional>
#include <string>

#include "engine/request.h"

namespace slip::cli {

/// `rejected`: the text of a rejected guess; empty = leave rejected ones out.
std::string painted(const engine::Delta& delta, std::string_view text,
                    const std::function<std::string(int)>& rejected);
/// One line that explains the colours.
std::string colour_legend(bool with_rejected);

}  // namespace slip::cli
