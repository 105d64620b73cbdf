// The one thread of the daemon: timers, signals, sockets and work from other threads. Used by the HTTP server and by
// everything in `rationd` that happens at a certain time. Promises: callbacks run one after the other in the thread
// that called run(); a timer or a watch ends with its handle, also inside its own callback; the unread input of a
// client is bounded. A callback must not throw: it is called from C, so the process would end.
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

/// Converts to libevent's type.
[[nodiscard]] inline timeval as_timeval(milliseconds time) {
  return {static_cast<time_t>(time.count() / 1000), static_cast<suseconds_t>(time.count() % 1000 * 1000)};
}

/// The place where other threads leave work for the loop. It may outlive the loop: work posted then is dropped.
class Mailbox {
 public:
  Mailbox();
  /// Posts `work`, which runs in the loop's thread in the order of posting. Any thread.
  void post(std::function<void()> work);

 private:
  friend class EventLoop;
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
  FileDescriptor wake_;
  bool closed_ = false;
};

/// A watched timer or signal, as long as this lives. Belongs to the loop's thread.
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

  /// Runs until stop().
  void run();
  /// Ends run(). Any thread, also before run().
  void stop();

  [[nodiscard]] Watch every(milliseconds interval, std::function<void()> work);
  [[nodiscard]] Watch after(milliseconds delay, std::function<void()> work);
  /// Calls `work` in the loop, not in the signal's handler.
  [[nodiscard]] Watch on_signal(int signal, std::function<void()> work);

  /// Posts work. Any thread.
  void post(std::function<void()> work) { mailbox_->post(std::move(work)); }
  [[nodiscard]] const std::shared_ptr<Mailbox>& mailbox() const noexcept { return mailbox_; }

  /// Returns libevent's base for its own calls.
  [[nodiscard]] event_base* base() const noexcept { return base_; }

 private:
  Watch watch(int number, short what, const milliseconds* delay, std::function<void()> work);
  void empty_mailbox();

  event_base* base_;
  std::shared_ptr<Mailbox> mailbox_;
  Watch mail_;
};

/// The owner of a channel's client.
class ChannelOwner {
 public:
  /// Called when input waits, or the client sends no more.
  virtual void on_input() = 0;
  /// Called when the kernel has taken all output.
  virtual void on_drained() = 0;
  /// The last call, also from within end(). The channel may be destroyed once the callback has returned.
  virtual void on_ended() = 0;

 protected:
  ~ChannelOwner() = default;
};

/// The bytes from and to one connected socket. Belongs to the loop's thread.
class Channel {
 public:
  /// `patience`: the channel ends if the client takes no byte of the output for this long.
  Channel(ChannelOwner& owner, EventLoop& loop, FileDescriptor socket, milliseconds patience);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Returns the first bytes of the waiting input; empty: none.
  [[nodiscard]] std::string_view input() const noexcept;
  void consume(std::size_t bytes) noexcept;
  void drop_input() noexcept;
  /// Returns true if the client has closed its half; earlier input may still wait.
  [[nodiscard]] bool input_ended() const noexcept { return input_ended_; }

  /// Writes; never blocks and never fails, so check backlog() first.
  void write(std::string_view bytes);
  /// Returns the bytes written here that the kernel has not taken yet.
  [[nodiscard]] std::size_t backlog() const noexcept;
  /// `send_buffer` bounds the output that the kernel may keep.
  void limit_output(milliseconds patience, int send_buffer);

  enum class Ending {
    kFlushed,   ///< once the output has gone
    kLingering  ///< then takes what the client still sends for a while, so that it gets to read the output
  };
  /// Ends the channel; input from now on is dropped.
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
