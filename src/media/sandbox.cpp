#include "media/sandbox.h"

#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace slip::media {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool set_limit(int resource, uint64_t value, uint64_t grace = 0) {
  const rlimit limit{value, value + grace};
  return ::setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
}

/// The second of grace lets the signal of the limit, SIGXCPU, come before SIGKILL, so that the parent can
/// tell. RLIMIT_AS would count address space that nobody touches; RLIMIT_DATA counts private memory.
bool limit_resources(const SandboxLimits& limits) {
  if (kSanitized) return true;
  return set_limit(RLIMIT_DATA, limits.memory_bytes) && set_limit(RLIMIT_CPU, limits.cpu_seconds, 1) &&
         set_limit(RLIMIT_FSIZE, 0) && set_limit(RLIMIT_NOFILE, 16) && set_limit(RLIMIT_NPROC, 0) &&
         set_limit(RLIMIT_CORE, 0);
}

/// What ends with the parent, shows nothing of itself, and never gains rights.
bool settle(int32_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) return false;
  return ::prctl(PR_SET_DUMPABLE, 0) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/// Memory, time and the end of the process.
constexpr int kAllowed[] = {SCMP_SYS(munmap),    SCMP_SYS(mremap),     SCMP_SYS(brk),
                            SCMP_SYS(madvise),   SCMP_SYS(futex),      SCMP_SYS(clock_gettime),
                            SCMP_SYS(getrandom), SCMP_SYS(close),      SCMP_SYS(fstat),
                            SCMP_SYS(exit),      SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn)};

/// Libraries ask such things of the system to choose their code (a file about the processor, say) and do well
/// without an answer.
constexpr int kRefused[] = {SCMP_SYS(open),  SCMP_SYS(openat),     SCMP_SYS(access),  SCMP_SYS(faccessat),
                            SCMP_SYS(uname), SCMP_SYS(newfstatat), SCMP_SYS(sysinfo), SCMP_SYS(getcwd)};

/// What the runtime of a sanitizer does beside: it reports on stderr, looks at its own thread, and asks
/// through a pipe whether memory can be read.
constexpr int kSanitizer[] = {SCMP_SYS(write),       SCMP_SYS(gettid),       SCMP_SYS(getpid),
                              SCMP_SYS(sigaltstack), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
                              SCMP_SYS(sched_yield), SCMP_SYS(nanosleep),    SCMP_SYS(clock_nanosleep),
                              SCMP_SYS(pipe2)};

/// Memory may be had, but never to run code in it.
bool allow_data_memory(scmp_filter_ctx filter) {
  const scmp_arg_cmp no_code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
  return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, no_code) == 0 &&
         seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, no_code) == 0;
}

/// Calls that this processor does not have carry negative numbers.
bool add_rules(scmp_filter_ctx filter, uint32_t action, std::span<const int> calls) {
  return std::all_of(calls.begin(), calls.end(),
                     [&](int call) { return call < 0 || seccomp_rule_add(filter, action, call, 0) == 0; });
}

bool add_rules(scmp_filter_ctx filter) {
  return allow_data_memory(filter) && add_rules(filter, SCMP_ACT_ALLOW, kAllowed) &&
         add_rules(filter, SCMP_ACT_ERRNO(EPERM), kRefused) &&
         (!kSanitized || add_rules(filter, SCMP_ACT_ALLOW, kSanitizer));
}

bool filter_calls() {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (filter == nullptr) return false;
  const bool loaded = add_rules(filter) && seccomp_load(filter) == 0;
  seccomp_release(filter);
  return loaded;
}

}  // namespace

bool enter_sandbox(const SandboxLimits& limits) {
  return settle(limits.parent) && limit_resources(limits) && filter_calls();
}

}  // namespace slip::media
