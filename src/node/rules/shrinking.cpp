#include "node/rules/shrinking.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "node/events/workload_events.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

// Nothing is taken from whoever holds more than its limit: what stands in the way is told, once for each limit.
void ShrinkingRule::run(NodeState& state, Events& events) {
  for (const AccountView& account : state.snapshot.accounts) {
    const auto known = shrinking_.find({account.path, account.account});
    const bool over = account.shrinking(), was_over = known != shrinking_.end() && known->second.over;
    const bool told = over && known != shrinking_.end() && known->second.limit <= account.limit;
    if (account.suspended || told || (!over && !was_over)) continue;
    const auto running = state.registry.workloads().find(account.path);
    if (running == state.registry.workloads().end()) continue;
    report_limit_moves(state, running->second, events);
    const std::string who = account.tenant + "/" + account.workload;
    Event event = event_of(state, running->second, "shrinking", who + " is under its limit again");
    if (over) {
      const Bytes beyond = account.used - account.limit;
      const std::string held = format_size(account.used), more = format_size(beyond),
                        limit = format_size(account.limit);
      event.text =
          account.movable >= beyond
              ? fmt::format(
                    "{} holds {}, {} more than its limit {}: its next request moves as much of its managed "
                    "memory to the host",
                    who, held, more, limit)
              : fmt::format(
                    "{} holds {}, {} more than its limit {}: more is denied until it is under; of what it holds {} "
                    "are in pools of the driver, {} in contexts, and the rest is in use",
                    who, held, more, limit, format_size(std::min(account.pooled, account.used)),
                    format_size(account.context));
      event.bytes = static_cast<std::int64_t>((account.used - account.limit).count());
      event.fix = command({"trim", account.workload});
    }
    event.gpu = account.gpu;
    events.push_back(std::move(event));
    shrinking_[{account.path, account.account}] = {over ? account.limit : known->second.limit, over};
  }
}

void ShrinkingRule::forget(const std::string& path) {
  std::erase_if(shrinking_, [&](const auto& entry) { return entry.first.first == path; });
}

}  // namespace ration::node
