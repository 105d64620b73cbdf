#include "node/rules/orphaned.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/command.hpp"
#include "machine/process_origin.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

void OrphanedRule::run(NodeState& state, Events& events) {
  constexpr Bytes kWorthTelling{std::uint64_t{256}
                                << 20};  // less than one more context is what measurements are off by
  for (const DeviceView& device : state.snapshot.devices) {
    if (!device.orphaned) continue;
    Orphaned& known = orphaned_[device.device.uuid];
    const Bytes now = known.amount.note(*device.orphaned);
    const bool told = std::exchange(known.told, now >= kWorthTelling);
    if (told || !known.told) continue;
    const auto& mig = device.device.mig;
    const std::string path = fmt::format("/dev/nvidia{}", mig ? mig->gpu : device.device.index);
    std::string who;
    for (const machine::Opener& opener : machine::openers_of(path))
      who += fmt::format("{}pid {} ({}, state {})", who.empty() ? "" : ", ", opener.pid, opener.command, opener.state);
    Event event =
        plain_event("orphaned", fmt::format("{} of GPU {} are in use, and the driver lists no process with them; {}",
                                            format_size(now), device.device.index,
                                            who.empty() ? path + " is open nowhere" : path + " is open in " + who));
    event.gpu = device.device.index;
    event.bytes = static_cast<std::int64_t>(now.count());
    event.fix = command({"explain", "--gpu", std::to_string(device.device.index)});
    events.push_back(std::move(event));
  }
}

}  // namespace ration::node
