#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace slip {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "slipstream: broken invariant at %s:%d: %s. This is a bug in slipstream.\n", file,
               line, condition);
  std::abort();
}

}  // namespace slip
