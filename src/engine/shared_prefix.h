// shared_prefix(): how far two sequences begin alike, in whole units of the prefix cache. Cost: a comparison of tokens.
#pragma once

#include "kv/prefix_unit.h"

namespace slip::engine {

int shared_prefix(const kv::Content& one, const kv::Content& other);

}  // namespace slip::engine
