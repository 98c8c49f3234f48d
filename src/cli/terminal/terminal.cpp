#include "cli/terminal/terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
constexpr int kDeadly[] = {SIGTERM, SIGHUP};

termios original;

extern "C" void give_terminal_back(int signal) {
  tcsetattr(STDIN_FILENO, TCSANOW, &original);
  [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, kPasteOff.data(), kPasteOff.size());
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

ScreenSize screen_size() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

}  // namespace

bool Terminal::usable() {
  const char* kind = std::getenv("TERM");
  const bool drawable = kind != nullptr && *kind != '\0' && std::strcmp(kind, "dumb") != 0;
  return drawable && stdin_is_terminal() && stdout_is_terminal();
}

Terminal::Terminal() {
  if (tcgetattr(STDIN_FILENO, &original) != 0)
    fail(ErrorKind::kRuntime, "cannot read the terminal's settings: {}", std::strerror(errno));
  raw_ = original;
  raw_.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  raw_.c_lflag |= NOFLSH;  // Ctrl-C shall not eat what was typed before it
  raw_.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON);
  raw_.c_cc[VMIN] = 1;
  raw_.c_cc[VTIME] = 0;
  raw_.c_cc[VSUSP] = _POSIX_VDISABLE;  // a shell would find the terminal without echo
  for (const int signal : kDeadly) ::signal(signal, give_terminal_back);
  keys_are_signals(false);
}

Terminal::~Terminal() {
  for (const int signal : kDeadly) ::signal(signal, SIG_DFL);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &original);
}

void Terminal::keys_are_signals(bool on) {
  if (on) {
    raw_.c_lflag |= ISIG;
  } else {
    raw_.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  }
  tcsetattr(STDIN_FILENO, TCSANOW, &raw_);
}

Terminal::Outcome Terminal::read_line(std::string_view prompt, std::string& line) {
  write_out(kPasteOn);
  editor_.clear();
  drawn_row_ = 0;
  draw(prompt);
  while (true) {
    if (input_.empty() && !fill()) {
      leave_line(prompt);
      return Outcome::kEnd;
    }
    size_t used = 0;
    auto signal = LineEditor::Signal::kNone;
    while (used < input_.size() && signal == LineEditor::Signal::kNone) signal = editor_.feed(input_[used++]);
    input_.erase(0, used);
    switch (signal) {
      case LineEditor::Signal::kSubmit:
        leave_line(prompt);
        line = editor_.take();
        return Outcome::kLine;
      case LineEditor::Signal::kEnd: leave_line(prompt); return Outcome::kEnd;
      case LineEditor::Signal::kInterrupt: {
        const bool empty = editor_.text().empty();
        leave_line(prompt);
        editor_.clear();
        if (empty) return Outcome::kInterrupt;
        write_out(kPasteOn);
        break;
      }
      case LineEditor::Signal::kClearScreen:
        write_out("\x1b[2J\x1b[H");
        drawn_row_ = 0;
        break;
      case LineEditor::Signal::kNone: break;
    }
    draw(prompt);
  }
}

void Terminal::draw(std::string_view prompt) {
  const LineLayout layout = lay_out(prompt, editor_.text(), editor_.cursor(), screen_size());
  std::string out = "\r";
  if (drawn_row_ > 0) out += fmt::format("\x1b[{}A", drawn_row_);
  out += "\x1b[J";
  for (size_t i = 0; i < layout.rows.size(); ++i) {
    if (i > 0) out += "\r\n";
    out += layout.rows[i];
  }
  const int below = static_cast<int>(layout.rows.size()) - 1 - layout.cursor_row;
  if (below > 0) out += fmt::format("\x1b[{}A", below);
  out += '\r';
  if (layout.cursor_column > 0) out += fmt::format("\x1b[{}C", layout.cursor_column);
  drawn_row_ = layout.cursor_row;
  write_out(out);
}

void Terminal::leave_line(std::string_view prompt) {
  editor_.move_to_end();
  draw(prompt);
  write_out(fmt::format("\r\n{}", kPasteOff));
  drawn_row_ = 0;
}

bool Terminal::fill() {
  char bytes[4096];
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    input_.assign(bytes, static_cast<size_t>(count));
    return true;
  }
}

}  // namespace slip::cli
