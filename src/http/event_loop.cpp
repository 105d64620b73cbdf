#include "http/event_loop.hpp"

#include <event2/event.h>
#include <sys/eventfd.h>
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

extern "C" void run_watch(evutil_socket_t, short, void* argument) {
  // The work may end its own watch.
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
  // Full only after 2^64 wakes: the loop is awake then anyhow.
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
  // Destroyed outside the lock: what the work owns may post once more.
  dropped.clear();
  mail_.cancel();
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

}  // namespace ration::http
