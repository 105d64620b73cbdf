#include "http/event_loop.hpp"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <utility>

namespace ration::http {

struct Watch::State : std::enable_shared_from_this<State> {
  event* source = nullptr;
  std::function<void()> work;

  ~State() {
    if (source != nullptr) event_free(source);
  }
};

namespace {

/// The maximum number of bytes of input that wait for their reader.
constexpr std::size_t kMaxWaitingInput = 64 * 1024;
/// The time for which a rejected client may go on sending. Closing at once would make its kernel discard the unread
/// answer.
constexpr milliseconds kLinger{2'000};

extern "C" void run_watch(evutil_socket_t, short, void* argument) {
  // Keeps the watch alive while its callback runs, which may end it.
  const auto state = static_cast<Watch::State*>(argument)->shared_from_this();
  state->work();
}

}  // namespace

Mailbox::Mailbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw std::bad_alloc();
}

void Mailbox::post(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  if (closed_) return;
  waiting_.push_back(std::move(work));
  const std::uint64_t one = 1;
  // The write can fail only if 2^64 wakes are unread, and then the loop is awake anyway.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

Watch& Watch::operator=(Watch&& other) noexcept {
  cancel();
  state_ = std::move(other.state_);
  return *this;
}

Watch::~Watch() { cancel(); }

void Watch::cancel() noexcept {
  if (state_ != nullptr) event_del(state_->source);
  state_.reset();
}

EventLoop::EventLoop() : base_(event_base_new()), mailbox_(std::make_shared<Mailbox>()) {
  if (base_ == nullptr) throw std::bad_alloc();
  std::signal(SIGPIPE, SIG_IGN);
  mail_ = watch(mailbox_->wake_.get(), EV_READ | EV_PERSIST, nullptr, [this] { empty_mailbox(); });
}

EventLoop::~EventLoop() {
  std::vector<std::function<void()>> dropped;
  {
    const std::scoped_lock lock(mailbox_->mutex_);
    mailbox_->closed_ = true;
    dropped.swap(mailbox_->waiting_);
  }
  // Destroys the work outside the lock, because a destructor of posted work may post again.
  dropped.clear();
  mail_.cancel();
  // The loop frees a destroyed channel only in its next round. This last round frees those that were destroyed since.
  event_base_loop(base_, EVLOOP_NONBLOCK);
  event_base_free(base_);
}

void EventLoop::run() { event_base_dispatch(base_); }

void EventLoop::stop() {
  post([this] { event_base_loopbreak(base_); });
}

Watch EventLoop::watch(int number, short what, const milliseconds* delay, std::function<void()> work) {
  auto state = std::make_shared<Watch::State>();
  state->work = std::move(work);
  state->source = event_new(base_, number, what, run_watch, state.get());
  if (state->source == nullptr) throw std::bad_alloc();
  const timeval time = as_timeval(delay != nullptr ? *delay : milliseconds{0});
  event_add(state->source, delay != nullptr ? &time : nullptr);
  return Watch(std::move(state));
}

Watch EventLoop::every(milliseconds interval, std::function<void()> work) {
  return watch(-1, EV_TIMEOUT | EV_PERSIST, &interval, std::move(work));
}

Watch EventLoop::after(milliseconds delay, std::function<void()> work) {
  return watch(-1, EV_TIMEOUT, &delay, std::move(work));
}

Watch EventLoop::on_signal(int signal, std::function<void()> work) {
  return watch(signal, EV_SIGNAL | EV_PERSIST, nullptr, std::move(work));
}

void EventLoop::empty_mailbox() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(mailbox_->wake_.get(), &count, sizeof count);
  std::vector<std::function<void()>> mail;
  {
    const std::scoped_lock lock(mailbox_->mutex_);
    mail.swap(mailbox_->waiting_);
  }
  for (const auto& work : mail) work();
}

/// The functions that libevent, a C library, calls.
struct ChannelCallbacks {
  static Channel& self(void* argument) { return *static_cast<Channel*>(argument); }
  static void readable(bufferevent*, void* argument) { self(argument).on_readable(); }
  static void drained(bufferevent*, void* argument) { self(argument).on_drained(); }
  static void happened(bufferevent*, short what, void* argument) {
    if ((what & BEV_EVENT_EOF) != 0)
      self(argument).on_end_of_input();
    else
      self(argument).end();
  }
};

Channel::Channel(ChannelOwner& owner, EventLoop& loop, FileDescriptor socket, milliseconds patience)
    : owner_(owner),
      loop_(loop),
      socket_(std::move(socket)),
      buffers_(bufferevent_socket_new(loop.base(), socket_.get(), 0)) {
  if (buffers_ == nullptr) throw std::bad_alloc();
  bufferevent_setcb(buffers_, ChannelCallbacks::readable, ChannelCallbacks::drained, ChannelCallbacks::happened, this);
  bufferevent_setwatermark(buffers_, EV_READ, 0, kMaxWaitingInput);
  const timeval write = as_timeval(patience);
  bufferevent_set_timeouts(buffers_, nullptr, &write);
  bufferevent_enable(buffers_, EV_READ | EV_WRITE);
}

Channel::~Channel() { bufferevent_free(buffers_); }

std::string_view Channel::input() const noexcept {
  evbuffer_iovec piece{};
  if (evbuffer_peek(bufferevent_get_input(buffers_), -1, nullptr, &piece, 1) < 1) return {};
  return {static_cast<const char*>(piece.iov_base), piece.iov_len};
}

void Channel::consume(std::size_t bytes) noexcept { evbuffer_drain(bufferevent_get_input(buffers_), bytes); }

void Channel::drop_input() noexcept { consume(evbuffer_get_length(bufferevent_get_input(buffers_))); }

void Channel::write(std::string_view bytes) { bufferevent_write(buffers_, bytes.data(), bytes.size()); }

std::size_t Channel::backlog() const noexcept { return evbuffer_get_length(bufferevent_get_output(buffers_)); }

void Channel::limit_output(milliseconds patience, int send_buffer) {
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  const timeval write = as_timeval(patience);
  bufferevent_set_timeouts(buffers_, nullptr, &write);
}

void Channel::on_readable() {
  if (state_ == State::kOpen) return owner_.on_input();
  drop_input();
}

void Channel::on_drained() {
  if (state_ == State::kOpen) return owner_.on_drained();
  if (state_ == State::kFinishing) end_if_flushed();
}

void Channel::on_end_of_input() {
  input_ended_ = true;
  if (state_ == State::kOpen) return owner_.on_input();
  if (state_ == State::kLingering) end();
}

void Channel::finish(Ending ending) {
  state_ = State::kFinishing;
  ending_ = ending;
  end_if_flushed();
}

void Channel::end_if_flushed() {
  if (backlog() > 0) return;
  if (ending_ == Ending::kFlushed) return end();
  state_ = State::kLingering;
  ::shutdown(socket_.get(), SHUT_WR);
  linger_ = loop_.after(kLinger, [this] { end(); });
}

void Channel::end() {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  linger_.cancel();
  bufferevent_disable(buffers_, EV_READ | EV_WRITE);
  bufferevent_setcb(buffers_, nullptr, nullptr, nullptr, nullptr);
  owner_.on_ended();
}

}  // namespace ration::http
