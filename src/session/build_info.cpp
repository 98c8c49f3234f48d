#include "session/build_info.h"

#include "slip_git_commit.h"

#define SLIP_TEXT_(x) #x
#define SLIP_TEXT(x) SLIP_TEXT_(x)

namespace slip::session {

std::string_view build_version() {
  return SLIP_VERSION;
}
std::string_view build_commit() {
  return SLIP_GIT_COMMIT;
}
std::string_view build_type() {
  return SLIP_BUILD_TYPE;
}

std::string_view build_compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " SLIP_TEXT(__GNUC__) "." SLIP_TEXT(__GNUC_MINOR__) "." SLIP_TEXT(__GNUC_PATCHLEVEL__);
#endif
}

}  // namespace slip::session
