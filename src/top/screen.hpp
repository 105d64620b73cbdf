// The terminal: shows frames and returns keys and signals. Used by the live loop; the only place that uses ncurses.
// Promises to restore the terminal when it is destroyed and whenever the program is stopped (Ctrl-Z). For that purpose,
// it alone handles SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH. At most one Screen exists, and it is made
// before any thread is started.
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
  /// Takes over the terminal, with colours if `colour` is true and the terminal has colours. Fails with E1430 if the
  /// terminal cannot show a frame.
  [[nodiscard]] static Result<std::unique_ptr<Screen>> open(bool colour);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] int columns() const;
  [[nodiscard]] int rows() const;
  void show(const Grid& grid);

  /// Waits until a key or a signal comes, `other` becomes readable, or `milliseconds` have passed.
  void wait(int other, int milliseconds);
  /// Returns the next key that was pressed; absent where none was.
  [[nodiscard]] std::optional<Key> key();
  /// Returns the signal that asked this process to end, or 0. The loss of the terminal counts as SIGHUP.
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

/// Ends this process by that signal, so that its parent sees the signal.
[[noreturn]] void end_by(int signal);

}  // namespace ration::top
