// The daemon's one thread: timers, signals, sockets, and work from other threads. Used by the HTTP server and by
// everything in `rationd` that happens at a certain time. Promises: callbacks run one after the other in the thread
// that called run(); a timer or a watch ends when its handle is destroyed, even inside its own callback; the unread
// input of a client is bounded. A callback must not throw, because it is called from C and the process would end.
#pragma once

#include <sys/time.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.hpp"

struct bufferevent;
struct event_base;
struct event;

namespace ration::http {

using std::chrono::milliseconds;

/// Converts a time to libevent's type.
[[nodiscard]] inline timeval as_timeval(milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

/// A place where other threads leave work for the loop. It may outlive the loop; work posted after the loop's end is
/// dropped.
class Mailbox {
 public:
  Mailbox();
  /// Posts `work`, which the loop's thread runs in the order of posting. Any thread may call it.
  void post(std::function<void()> work);

 private:
  friend class EventLoop;
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  FileDescriptor wake_;
  bool closed_ = false;
};

/// A timer or signal that is watched as long as this object lives. Belongs to the loop's thread.
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
  /// Makes the loop. Also makes the process ignore SIGPIPE, so that a client that leaves only makes one write fail, and
  /// does not end the daemon.
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs the loop until stop().
  void run();
  /// Ends run(). Any thread may call it, also before run().
  void stop();

  [[nodiscard]] Watch every(milliseconds interval, std::function<void()> work);
  [[nodiscard]] Watch after(milliseconds delay, std::function<void()> work);
  /// Calls `work` in the loop and not in the signal's handler.
  [[nodiscard]] Watch on_signal(int signal, std::function<void()> work);

  /// Posts work to the loop. Any thread may call it.
  void post(std::function<void()> work) { mailbox_->post(std::move(work)); }
  [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const noexcept { return mailbox_; }

  /// Returns libevent's base, for calls that need it.
  [[nodiscard]] event_base* base() const noexcept { return base_; }

 private:
  Watch watch(int number, short what, const milliseconds* delay, std::function<void()> work);
  void empty_mailbox();

  event_base* base_;
  std::shared_ptr<Mailbox> mailbox_;
  Watch mail_;
};

/// The receiver of a channel's callbacks.
class ChannelOwner {
 public:
  /// Called when input waits, or when the client sends no more.
  virtual void on_input() = 0;
  /// Notes that the kernel has taken all output.
  virtual void on_drained() = 0;
  /// Notes the end of the channel; end() may call it, too. No other call follows. The channel may be destroyed once
  /// this callback has returned.
  virtual void on_ended() = 0;

 protected:
  ~ChannelOwner() = default;
};

/// The bytes from and to one connected socket. Belongs to the loop's thread.
class Channel {
 public:
  /// Takes over the socket. The channel ends if the client takes no byte of the output for `patience`.
  Channel(ChannelOwner& owner, EventLoop& loop, FileDescriptor socket, milliseconds patience);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Returns the first bytes of the waiting input; empty if none wait.
  [[nodiscard]] std::string_view input() const noexcept;
  void consume(std::size_t bytes) noexcept;
  void drop_input() noexcept;
  /// Returns true if the client has closed its half of the connection; earlier input may still wait.
  [[nodiscard]] bool input_ended() const noexcept { return input_ended_; }

  /// Writes the bytes. Never blocks and never fails, so check backlog() first.
  void write(std::string_view bytes);
  /// Returns the number of written bytes that the kernel has not taken yet.
  [[nodiscard]] std::size_t backlog() const noexcept;
  /// Changes the patience, and bounds the output that the kernel may hold by `send_buffer`.
  void limit_output(milliseconds patience, int send_buffer);

  enum class Ending {
    kFlushed,   ///< ends once the output is sent
    kLingering  ///< sends the output, then takes input for a while, so that the client gets to read the output
  };
  /// Ends the channel; drops input from now on.
  void finish(Ending ending);
  void end();

 private:
  friend struct ChannelCallbacks;
  enum class State { kOpen, kFinishing, kLingering, kEnded };

  void on_readable();
  void on_drained();
  void on_end_of_input();
  void end_if_flushed();

  ChannelOwner& owner_;
  EventLoop& loop_;
  FileDescriptor socket_;
  bufferevent* buffers_;
  State state_ = State::kOpen;
  Ending ending_ = Ending::kFlushed;
  bool input_ended_ = false;
  Watch linger_;
};

}  // namespace ration::http
