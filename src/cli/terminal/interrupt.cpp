#include "cli/terminal/interrupt.h"

#include <atomic>

namespace slip::cli {
namespace {

volatile std::sig_atomic_t pressed = 0;
std::atomic<net::Cancel*> to_cancel{nullptr};
static_assert(std::atomic<net::Cancel*>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  pressed = 1;
  if (net::Cancel* cancel = to_cancel.load()) cancel->request();
}

}  // namespace

InterruptGuard::InterruptGuard(Second second, net::Cancel* cancel) {
  pressed = 0;
  to_cancel = cancel;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  // SA_RESETHAND makes the second one deadly; SA_RESTART keeps writes whole.
  action.sa_flags = static_cast<int>(second == Second::kKills ? SA_RESETHAND | SA_RESTART : SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_, nullptr);
  to_cancel = nullptr;
}

bool InterruptGuard::interrupted() const {
  return pressed != 0;
}

void InterruptGuard::clear() {
  pressed = 0;
}

}  // namespace slip::cli
