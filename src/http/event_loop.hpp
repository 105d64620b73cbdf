// The one thread of the daemon: timers, signals, sockets and work that other threads hand in. Used by the HTTP server
// and by everything in `rationd` that happens at a time. Promises: callbacks run one after the other in the thread that
// called run(); a timer or a watch ends with its handle, also inside its own callback. A callback must not throw: it is
// called from C, the process would end.
#pragma once

#include <sys/time.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/file.hpp"

struct event_base;
struct event;

namespace ration::http {

using std::chrono::milliseconds;

/// As libevent wants it.
[[nodiscard]] inline timeval as_timeval(milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

/// Where other threads leave work for the loop. It may outlive the loop: what is posted then is dropped.
class Mailbox {
 public:
  Mailbox();
  /// Any thread. `work` runs in the loop's thread, in the order of posting.
  void post(std::function<void()> work);

 private:
  friend class EventLoop;
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  FileDescriptor wake_;
  bool closed_ = false;
};

/// A timer or a signal that is watched, as long as this lives. Belongs to the loop's thread.
class Watch {
 public:
  struct State;

  Watch() noexcept = default;
  explicit Watch(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  Watch(Watch&&) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch();
  void cancel() noexcept;

 private:
  std::shared_ptr<State> state_;
};

class EventLoop {
 public:
  /// Also makes the process ignore SIGPIPE: a client that leaves is an error of one write, not the daemon's end.
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Returns after stop().
  void run();
  /// Any thread, also before run().
  void stop();

  [[nodiscard]] Watch every(milliseconds interval, std::function<void()> work);
  [[nodiscard]] Watch after(milliseconds delay, std::function<void()> work);
  /// `work` runs in the loop, not in the signal's handler.
  [[nodiscard]] Watch on_signal(int signal, std::function<void()> work);

  /// Any thread.
  void post(std::function<void()> work) { mailbox_->post(std::move(work)); }
  [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const noexcept { return mailbox_; }

  /// For libevent's own calls.
  [[nodiscard]] event_base* base() const noexcept { return base_; }

 private:
  Watch watch(int number, short what, const milliseconds* delay, std::function<void()> work);
  void empty_mailbox();

  event_base* base_;
  std::shared_ptr<Mailbox> mailbox_;
  Watch mail_;
};

}  // namespace ration::http
