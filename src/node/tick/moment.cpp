#include "node/tick/moment.hpp"

namespace ration::node {

const machine::Device* device_of(const Moment& moment, const book::DeviceUuid& uuid) {
  if (!moment.machine) return nullptr;
  for (const machine::Device& device : moment.machine->devices)
    if (device.bytes == uuid) return &device;
  return nullptr;
}

std::optional<int> gpu_of(const Moment& moment, const book::DeviceUuid& uuid) {
  const machine::Device* device = device_of(moment, uuid);
  return device == nullptr ? std::nullopt : std::optional(device->index);
}

EventSubject event_subject(const Moment& moment, const Workload& workload) {
  EventSubject found{workload.book.name, workload.book.tenant, workload.user, {}};
  if (!workload.book.accounts.empty()) found.gpu = gpu_of(moment, workload.book.accounts.front().device);
  return found;
}

EventSubject event_subject(const Moment& moment, const Workload& workload, const book::DeviceUuid& device) {
  return {workload.book.name, workload.book.tenant, workload.user, gpu_of(moment, device)};
}

}  // namespace ration::node
