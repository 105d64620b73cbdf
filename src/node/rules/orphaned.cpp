#include "node/rules/orphaned.hpp"

#include <fmt/format.h>

#include <utility>

#include "machine/process_origin.hpp"

namespace ration::node {

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
    events.push_back(orphaned_event(device.device.index, now, path, machine::openers_of(path)));
  }
}

}  // namespace ration::node
