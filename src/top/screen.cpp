#include "top/screen.hpp"

#define NCURSES_NOMACROS
#include <curses.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace ration::top {
namespace {

constexpr int kColours = 8;
constexpr short kFirstPair = 1;

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH}) sigaddset(&set, signal);
  return set;
}

attr_t attributes_of(const Style& style) {
  attr_t bits = A_NORMAL;
  if (style.bold) bits |= A_BOLD;
  if (style.dim) bits |= A_DIM;
  if (style.reverse) bits |= A_REVERSE;
  return bits;
}

}  // namespace

Result<std::unique_ptr<Screen>> Screen::open(bool colour) {
  std::unique_ptr<Screen> screen(new Screen(colour));
  // The signals are blocked before ncurses starts, so that neither ncurses nor a later thread takes them.
  const sigset_t handled = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &handled, &screen->before_);
  screen->signals_ = FileDescriptor(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    const char* name = std::getenv("TERM");
    return fail("E1430",
                fmt::format("this machine has no description of the terminal '{}'.", name == nullptr ? "" : name),
                "TERM=xterm ration top    or one frame as text: ration top --once", 1);
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(25);
  ::curs_set(0);
  if (colour && ::has_colors()) {
    ::start_color();
    ::use_default_colors();
    for (short i = 1; i < kColours; ++i) ::init_pair(static_cast<short>(kFirstPair + i), i, -1);
  } else {
    screen->colour_ = false;
  }
  return screen;
}

Screen::~Screen() {
  if (stdscr != nullptr) ::endwin();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Screen::columns() const { return COLS; }
int Screen::rows() const { return LINES; }

void Screen::show(const Grid& grid) {
  ::erase();
  for (int row = 0; row < std::min(grid.rows(), LINES); ++row) {
    for (int column = 0; column < std::min(grid.columns(), COLS); ++column) {
      const Cell& cell = grid.at(row, column);
      if (cell.glyph == 0 || (cell.glyph == U' ' && cell.style == Style{})) continue;
      const std::array<wchar_t, 2> letter{static_cast<wchar_t>(cell.glyph), L'\0'};
      const auto pair = colour_ && cell.style.colour != Colour::kDefault
                            ? static_cast<short>(kFirstPair + static_cast<int>(cell.style.colour))
                            : short{0};
      cchar_t drawn{};
      ::setcchar(&drawn, letter.data(), attributes_of(cell.style), pair, nullptr);
      ::mvadd_wch(row, column, &drawn);
    }
  }
  ::refresh();
}

void Screen::wait(int other, int milliseconds) {
  std::array<pollfd, 3> waited{{{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}, {other, POLLIN, 0}}};
  if (::poll(waited.data(), waited.size(), milliseconds) <= 0) return;
  if ((waited[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) ended_by_ = SIGHUP;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) take_signal(static_cast<int>(info.ssi_signo));
}

void Screen::take_signal(int signal) {
  switch (signal) {
    case SIGTSTP:
      stop_until_continued();
      break;
    case SIGCONT:  // after a SIGSTOP, the shell has written to the screen
      ::clearok(stdscr, TRUE);
      ::reset_prog_mode();
      measure();
      break;
    case SIGWINCH:
      measure();
      break;
    default:
      ended_by_ = signal;
  }
}

void Screen::stop_until_continued() {
  ::endwin();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // stops the process here, and continues here later
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  measure();
  ::clearok(stdscr, TRUE);
  ::refresh();
}

void Screen::measure() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    ::resizeterm(size.ws_row, size.ws_col);
}

std::optional<Key> Screen::key() {
  wint_t got = 0;
  const int kind = ::get_wch(&got);
  if (kind == ERR) return std::nullopt;
  if (kind == KEY_CODE_YES) {
    switch (got) {
      case KEY_UP:
        return Key{Key::Kind::kUp, 0};
      case KEY_DOWN:
        return Key{Key::Kind::kDown, 0};
      case KEY_PPAGE:
        return Key{Key::Kind::kPageUp, 0};
      case KEY_NPAGE:
        return Key{Key::Kind::kPageDown, 0};
      case KEY_HOME:
        return Key{Key::Kind::kHome, 0};
      case KEY_END:
        return Key{Key::Kind::kEnd, 0};
      case KEY_ENTER:
        return Key{Key::Kind::kEnter, 0};
      case KEY_BACKSPACE:
        return Key{Key::Kind::kBackspace, 0};
      case KEY_F(1):
        return Key{Key::Kind::kLetter, U'?'};
      default:
        return Key{};
    }
  }
  if (got == L'\r' || got == L'\n') return Key{Key::Kind::kEnter, 0};
  if (got == 0x1b) return Key{Key::Kind::kEscape, 0};
  if (got == 0x7f || got == 0x08) return Key{Key::Kind::kBackspace, 0};
  return Key{Key::Kind::kLetter, static_cast<char32_t>(got)};
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

}  // namespace ration::top
