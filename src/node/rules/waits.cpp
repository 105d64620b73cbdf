#include "node/rules/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "node/events/workload_events.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

namespace {

constexpr std::uint64_t kMinReportedWait = 50 * kMillisecond;  // shorter ones read as none

/// Waits that nobody at the screen notices are many where programs share a card.
std::uint64_t told_again_after(std::uint64_t wait_ns) { return wait_ns < kSecond ? 60 * kSecond : 10 * kSecond; }

std::string wait_text(std::uint64_t wait_ns) {
  return wait_ns < 10 * kSecond ? fmt::format("{:.1f}s", static_cast<double>(wait_ns) / kSecond)
                                : format_duration(wait_ns);
}

}  // namespace

// Those that end in a denial are in the book; those that end well are seen only if they last from one tick to another.
void WaitRule::run(NodeState& state, Events& events) {
  for (const auto& [path, workload] : state.registry.workloads()) {
    const auto known = waits_.find(path);
    if (workload.book.waiting > 0) {
      if (known != waits_.end()) {
        known->second.waiting = std::max(known->second.waiting, workload.book.waiting);
        continue;
      }
      const auto& wanted = workload.book.wanted;
      const auto most = static_cast<std::uint32_t>(std::max_element(wanted.begin(), wanted.end()) - wanted.begin());
      if (most >= workload.book.accounts.size()) continue;
      waits_[path] = {
          state.now_ns, workload.book.denial_count, workload.book.granted_waits,       most, workload.book.waiting,
          wanted[most], workload.used[most],        workload.book.accounts[most].limit};
    } else if (known != waits_.end()) {
      const Wait wait = known->second;
      waits_.erase(known);
      // Denied, or whoever waited has ended; or it is nothing that anybody would notice.
      const std::uint64_t length = state.now_ns - std::min(state.now_ns, wait.since_ns);
      if (workload.book.denial_count != wait.denials || workload.book.granted_waits < wait.granted + wait.waiting ||
          length < kMinReportedWait)
        continue;
      WaitsTold& told = told_[path];  // a book can say so as often as it likes
      if (told.count++ == 0) told.first_ns = wait.since_ns;
      if (told.last_ns != 0 && state.now_ns < told.last_ns + told_again_after(length)) continue;
      report_limit_moves(state, workload, events);
      std::string text = fmt::format("{}/{} waited about {} for {} and got it: it held {} of its limit {}",
                                     workload.book.tenant, workload.book.name, wait_text(length),
                                     format_size(wait.wanted), format_size(wait.used), format_size(wait.limit));
      if (told.count > 1)
        text += fmt::format(" (the last of {} waits within {})", told.count,
                            format_duration(state.now_ns - std::min(state.now_ns, told.first_ns)));
      Event event = event_of(state, workload, "waited", std::move(text));
      event.count = told.count;
      event.first_time = history::to_ms(told.first_ns);
      told = {state.now_ns, 0, 0};
      event.bytes = static_cast<std::int64_t>(wait.wanted.count());
      event.gpu = gpu_of(state, workload.book.accounts[wait.account].device);
      events.push_back(std::move(event));
    }
  }
}

void WaitRule::forget(const std::string& path) {
  waits_.erase(path);
  told_.erase(path);
}

}  // namespace ration::node
