// One thread for slow questions (reports, series), so that they delay no tick.
// Promises: jobs run one after the other, in order; their number is bounded; the thread ends with its owner.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace ration::node {

class Worker {
 public:
  static constexpr std::size_t kMaxWaiting = 64;

  Worker() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Adds a job. Returns false if too many wait already.
  [[nodiscard]] bool post(std::function<void()> job) {
    const std::lock_guard guard(mutex_);
    if (jobs_.size() >= kMaxWaiting) return false;
    jobs_.push_back(std::move(job));
    filled_.notify_one();
    return true;
  }

 private:
  void run(const std::stop_token& stop) {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock guard(mutex_);
        if (!filled_.wait(guard, stop, [this] { return !jobs_.empty(); })) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      try {
        job();
      } catch (const std::exception& problem) {  // a bug: this client gets no answer, all others do
        std::fprintf(stderr, "ration: a request failed: %s\n", problem.what());
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::deque<std::function<void()>> jobs_;
  std::jthread thread_;  // last, because it uses the members above
};

}  // namespace ration::node
