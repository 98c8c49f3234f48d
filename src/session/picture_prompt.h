// From the ids of a rendered prompt to a prompt with pictures: each mark that a template wrote becomes the picture's
// rows between the tokens that begin and end an image.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/vision_config.h"
#include "session/prompt.h"
#include "session/vision.h"

namespace slip::session {

/// Throws Error(kUsage) unless there are as many marks as pictures.
Prompt with_pictures(std::span<const int> ids, std::span<const Picture> pictures,
                     const checkpoint::MediaTokens& tokens);

}  // namespace slip::session
