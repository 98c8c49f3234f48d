// Whether this build is instrumented. Long suites that search for wrong results, which the plain build runs
// whole, run a part of their cases under a sanitizer: what it looks for (bad accesses, races) does not hide
// in the last sampling option.
#pragma once

namespace slip::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace slip::test
