#include "node/rules/overuse.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ration::node {

using history::Event;
using history::plain_event;

// A book is read a moment before the driver is: what a program takes in between looks like bytes beside its book. Who
// evades it is still there at the third tick.
void OveruseRule::run(NodeState& state, Events& events) {
  constexpr int kTicksInARow = 3;
  std::map<std::pair<int, std::int32_t>, int> present;
  for (AccountView& account : state.snapshot.accounts) {
    for (ProcessView& process : account.processes) {
      if (process.state != ProcessState::kViolator) continue;
      const std::pair<int, std::int32_t> key{account.gpu.value_or(-1), process.pid};
      const int ticks = present[key] = std::min(violators_[key] + 1, kTicksInARow + 1);
      if (ticks < kTicksInARow) process.state = ProcessState::kManaged;
      if (ticks >= kTicksInARow) {  // that is what it has
        const Bytes found = *process.driver_used - process.used_by_driver();
        const Bytes beside = found - std::min(found, account.unrequested);  // of which the account has that already
        account.used += beside;
        for (DeviceView& device : state.snapshot.devices) {
          if (device.device.index != account.gpu) continue;
          device.governed += beside;
          if (device.unexplained) *device.unexplained -= std::min(*device.unexplained, beside);
        }
      }
      if (ticks != kTicksInARow) continue;
      Event event = plain_event(
          "violation", fmt::format("pid {} of {}/{} uses {} by the driver, {} by its book", process.pid, account.tenant,
                                   account.workload, format_size(*process.driver_used), format_size(process.used)));
      event.workload = account.workload;
      event.tenant = account.tenant;
      event.user = account.user;
      event.gpu = account.gpu;
      event.pid = process.pid;
      events.push_back(std::move(event));
    }
  }
  violators_ = std::move(present);
}

}  // namespace ration::node
