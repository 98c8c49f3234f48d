// How fast this machine can read memory, measured with the plainest loop there is, so that a model's speed
// can be given as a share of it.
#pragma once

#include <cstddef>
#include <span>

#include "base/thread_pool.h"

namespace slip::backend::cpu {

/// Bytes per second with all threads reading `memory` once, the better of two ways to prefetch. Meaningless
/// below a few hundred MB, where caches answer: see measure_read_bandwidth().
double time_read(ThreadPool& pool, std::span<const std::byte> memory);

/// The same over at least 512 MiB: over `memory` if it is that large (at most its first 2 GiB), else over
/// memory of its own. Best of three.
double measure_read_bandwidth(ThreadPool& pool, std::span<const std::byte> memory);

}  // namespace slip::backend::cpu
