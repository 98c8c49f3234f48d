#include "cli/terminal/interrupt.h"

namespace slip::cli {
namespace {

volatile std::sig_atomic_t pressed = 0;

extern "C" void on_interrupt(int) {
  pressed = 1;
}

}  // namespace

InterruptGuard::InterruptGuard(Second second) {
  pressed = 0;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  // SA_RESETHAND makes the second one deadly; SA_RESTART keeps writes whole.
  action.sa_flags = static_cast<int>(second == Second::kKills ? SA_RESETHAND | SA_RESTART : SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_, nullptr);
}

bool InterruptGuard::interrupted() const {
  return pressed != 0;
}

void InterruptGuard::clear() {
  pressed = 0;
}

}  // namespace slip::cli
