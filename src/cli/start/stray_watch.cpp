#include "cli/start/stray_watch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cli/session/node_access.hpp"

namespace ration::cli {

using namespace std::chrono_literals;

StrayWatch::StrayWatch(const Session& session, std::string workload)
    : session_(session), workload_(std::move(workload)), thread_([this] { watch(); }) {}

StrayWatch::~StrayWatch() { (void)finish(false); }

std::map<std::int32_t, Stray> StrayWatch::finish(bool left_running) {
  if (thread_.joinable()) {
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    thread_.join();
    if (has_looked_ || left_running) look();
  }
  return seen_;
}

void StrayWatch::look() {
  const auto local = LocalAccess::open(session_);
  if (!local) return;
  for (const node::UngovernedView& view : (*local)->snapshot().ungoverned) {
    if (view.workload != workload_) continue;
    Stray& stray = seen_[view.process.pid];
    stray.command = view.process.command;
    stray.most = std::max(stray.most, view.process.driver_used.value_or(Bytes{0}));
  }
  has_looked_ = true;
}

// Queries at growing intervals, since each query asks the driver about every GPU.
void StrayWatch::watch() {
  std::unique_lock lock(mutex_);
  for (auto pause = 1s; !wake_.wait_for(lock, pause, [this] { return ended_; }); pause = std::min(pause * 2, 16s)) {
    lock.unlock();
    look();
    lock.lock();
  }
}

}  // namespace ration::cli
