// Managed memory on the devices: one number per process, which decreases when other requests need the room.
#include <algorithm>

#include "node_state.hpp"
#include "steps.hpp"

namespace ration::sim {

// Evicts managed memory of any process until `needed` bytes are free. Requires the lock.
void Node::evict_managed(int device, Bytes needed) {
  for (ProcessRecord& process : state_->processes) {
    const Bytes free = free_locked(device);
    if (free >= needed) return;
    const std::uint64_t evicted = std::min(round_up(needed - free, kGranule).count(), process.managed[device]);
    process.managed[device] -= evicted;
    step();
    state_->devices[device].managed_bytes -= evicted;
    step();
  }
}

Bytes Node::take_managed(int device, Bytes more) {
  lock();
  const int own = slot();
  if (free_locked(device) < more) reap();
  const Bytes taken = own >= 0 ? std::min(more, round_down(free_locked(device), kGranule)) : Bytes{0};
  if (own >= 0) state_->processes[own].managed[device] += taken.count();
  step();
  state_->devices[device].managed_bytes += taken.count();
  step();
  note_peak(device);
  unlock();
  return taken;
}

void Node::give_managed(int device, Bytes bytes) {
  lock();
  if (const int own = slot(); own >= 0) {
    const std::uint64_t given = std::min(bytes.count(), state_->processes[own].managed[device]);
    state_->processes[own].managed[device] -= given;
    step();
    state_->devices[device].managed_bytes -= given;
    step();
  }
  unlock();
}

Bytes Node::managed(int device) {
  lock();
  const int own = slot();
  const Bytes now{own >= 0 ? state_->processes[own].managed[device] : 0};
  unlock();
  return now;
}

}  // namespace ration::sim
