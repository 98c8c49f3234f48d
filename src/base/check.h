// SLIP_CHECK aborts on a broken invariant of the program itself. It is never reachable from user input: what
// comes from outside is refused with slip::Error before it gets here.
#pragma once

namespace slip {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define SLIP_CHECK(condition)                               \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::slip::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
