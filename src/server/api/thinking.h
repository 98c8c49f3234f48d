// Thinking: whether the model is asked to think before it answers. Every API and client spells it in its own way; one
// table knows all of them. Off by default.
#pragma once

#include <optional>

#include "server/api/fields.h"

namespace slip::server::api {

/// As the request asks, in any spelling; nothing where it does not say. Of several the first in the table counts.
/// Throws ApiError for a word or a type that no spelling has.
std::optional<bool> read_thinking(const Fields& body);

}  // namespace slip::server::api
