// The terminal: shows frames, gives keys and signals. Used by the live loop; the only place that knows ncurses.
// Promises: the terminal is as it was before when this is destroyed and whenever the program is stopped (Ctrl-Z); it is
// left to nobody else to restore it, because SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH arrive here and
// nowhere else. One at a time; made before any other thread is.
#pragma once

#include <csignal>
#include <memory>
#include <optional>

#include "base/file.hpp"
#include "base/result.hpp"
#include "top/controls.hpp"
#include "top/grid.hpp"

namespace ration::top {

class Screen {
 public:
  /// E1430: not a terminal that can be drawn on. `colour`: where the terminal has it.
  [[nodiscard]] static Result<std::unique_ptr<Screen>> open(bool colour);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] int columns() const;
  [[nodiscard]] int rows() const;
  void show(const Grid& grid);

  /// Waits for a key, a signal, `other` becoming readable, or that many milliseconds.
  void wait(int other, int milliseconds);
  /// The next key that was pressed already; absent: none.
  [[nodiscard]] std::optional<Key> key();
  /// The signal that asks to end; 0: none did. A terminal that is gone counts as SIGHUP.
  [[nodiscard]] int ended_by() const { return ended_by_; }

 private:
  explicit Screen(bool colour) : colour_(colour) {}
  void take_signal(int signal);
  void stop_until_continued();
  void measure();

  bool colour_;
  int ended_by_ = 0;
  sigset_t before_{};
  FileDescriptor signals_;
};

/// Ends this process as that signal would have, so that whoever waits for it sees it.
[[noreturn]] void end_by(int signal);

}  // namespace ration::top
