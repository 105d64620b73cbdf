#include "node/accounting/counters.hpp"

#include "admission/denials.hpp"

namespace ration::node {

void Counters::count(const Events& events) {
  for (const Event& event : events) {
    const TenantOnGpu where{event.tenant, static_cast<int>(event.gpu.value_or(0))};
    const auto bytes = static_cast<std::uint64_t>(event.bytes.value_or(0));
    if (event.denied) {
      ++denied[{where, admission::name_of(event.denied->reason)}];
      denied_bytes[where] += bytes;
      if (event.type == EventType::kWaited) denied_after.note(static_cast<double>(event.denied->waited_ns) / 1e9);
    } else if (event.type == EventType::kTrimmed) {
      trimmed_bytes[where] += bytes;
    } else if (event.type == EventType::kResized) {
      ++limit_changes[{event.tenant, event.by}];
    } else if (event.type == EventType::kViolation) {
      ++violations[event.tenant];
    }
  }
}

void Counters::count_time(const history::Sample& sample, double seconds, const Snapshot& now) {
  for (const auto& workload : sample.workloads) {
    if (workload.device >= sample.devices.size()) continue;
    int gpu = 0;
    for (const DeviceView& device : now.devices)
      if (device.device.uuid == sample.devices[workload.device].uuid) gpu = device.device.index;
    ByteSeconds& sums = byte_seconds[{workload.tenant, gpu}];
    sums.used += static_cast<double>(workload.used.count()) * seconds;
    sums.limit += static_cast<double>(workload.limit.count()) * seconds;
    sums.guarantee += static_cast<double>(workload.guarantee.count()) * seconds;
  }
}

}  // namespace ration::node
