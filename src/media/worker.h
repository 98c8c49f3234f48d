// The decode worker: the process in which untrusted pictures are decoded. It maps its two files, locks itself
// in (sandbox.h), decodes one item, resizes it, and ends.
#pragma once

namespace slip::media {

/// The word by which a program that is its own worker is told to be one: `slipstream --media-worker`.
inline constexpr const char* kWorkerFlag = "--media-worker";

/// The worker's whole life; the result is the exit code. Call it first in main(), before threads or devices.
/// Started by hand it says what it is for and returns 1.
int run_worker(int argc, char** argv);

}  // namespace slip::media
