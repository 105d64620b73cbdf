#include "cli/start/part_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "guard/recorder/record_layout.hpp"
#include "guard/recorder/ticks.hpp"

namespace ration::cli {
namespace {

FileDescriptor handle_of(int pid) {
  constexpr long kPidfdOpen = 434;
  return FileDescriptor{static_cast<int>(::syscall(kPidfdOpen, pid, 0))};
}

/// Notes in the part that its process is gone, unless the process has noted its own end.
void note_end(const std::string& part) {
  const FileDescriptor file{::open(part.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  constexpr off_t kPlace = offsetof(guard::PartHeader, ended);
  guard::Anchor ended{};
  if (!file || ::pread(file.get(), &ended, sizeof ended, kPlace) != sizeof ended || ended.ticks != 0) return;
  ended = guard::anchor_now();
  (void)!::pwrite(file.get(), &ended, sizeof ended, kPlace);
}

}  // namespace

PartWatch::PartWatch(std::string folder)
    : folder_(std::move(folder)),
      changes_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!changes_ || !stop_ || ::inotify_add_watch(changes_.get(), folder_.c_str(), IN_CREATE) < 0) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the threads that pass them on
  thread_ = std::thread([this] { serve(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PartWatch::~PartWatch() {
  if (!thread_.joinable()) return;
  constexpr std::uint64_t kOne = 1;
  (void)!::write(stop_.get(), &kOne, sizeof kOne);
  thread_.join();
  see_new_parts();
  note_ends(0);
}

void PartWatch::serve() {
  for (;;) {
    pollfd stop{stop_.get(), POLLIN, 0};
    if (::poll(&stop, 1, 0) > 0) return;
    note_ends(-1);
    see_new_parts();
  }
}

void PartWatch::see_new_parts() {
  alignas(inotify_event) char buffer[4096];
  for (ssize_t length = 0; (length = ::read(changes_.get(), buffer, sizeof buffer)) > 0;) {
    for (const char* at = buffer; at < buffer + length;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof *event + event->len;
      if (event->len != 0 && std::string_view(event->name).ends_with(guard::kPartEnding)) watch(event->name);
    }
  }
}

void PartWatch::watch(const std::string& part) {
  const int pid = std::atoi(part.c_str());  // the name begins with the pid
  Watched& watched = watched_[pid];
  watched.parts.push_back(folder_ + "/" + part);
  if (!watched.process) watched.process = handle_of(pid);
  if (!watched.process && errno == ESRCH) {
    note_end(watched.parts.back());
    watched_.erase(pid);
  }
}

void PartWatch::note_ends(int timeout_ms) {
  std::vector<pollfd> all{{stop_.get(), POLLIN, 0}, {changes_.get(), POLLIN, 0}};
  std::vector<int> pids;
  for (const auto& [pid, watched] : watched_) {
    if (!watched.process) continue;
    all.push_back({watched.process.get(), POLLIN, 0});
    pids.push_back(pid);
  }
  if (::poll(all.data(), all.size(), timeout_ms) <= 0) return;
  for (std::size_t at = 0; at < pids.size(); ++at) {
    if ((all[at + 2].revents & POLLIN) == 0) continue;
    for (const std::string& part : watched_[pids[at]].parts) note_end(part);
    watched_.erase(pids[at]);
  }
}

}  // namespace ration::cli
