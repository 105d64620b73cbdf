// The node's part of checkpoints: it finds the process, takes the process's bytes off the devices, and takes them again
// at the restore. The content of the memory does not move, since device memory is host memory here.
#include <unistd.h>

#include <algorithm>

#include "node_state.hpp"
#include "steps.hpp"

namespace ration::sim {

Turnstile* Node::find_process(int pid, ProcessIdentity& out) {
  const std::uint64_t own_namespace = current_process().pid_namespace;
  Turnstile* found = nullptr;
  lock();
  const FileDescriptor file = reopen();
  for (int index = 0; index < kMaxProcesses && found == nullptr; ++index) {
    const ProcessRecord& process = state_->processes[index];
    if (process.in_use == 0 || process.identity.pid != pid || process.identity.pid_namespace != own_namespace) continue;
    if (!lives(file, index)) continue;
    out = process.identity;
    found = &state_->turnstiles[index];
  }
  unlock();
  return found;
}

/// Does one step of a checkpoint, but only if the slot still belongs to `process`: that process may have ended
/// meanwhile, and another one may have taken the slot.
template <typename Change>
Move Node::change(Turnstile& turnstile, const ProcessIdentity& process, std::uint32_t state, Change&& step) {
  const auto slot = static_cast<int>(&turnstile - state_->turnstiles);
  lock();
  Move moved = state_->processes[slot].identity.same_as(process) ? Move::kDone : Move::kGone;
  if (moved == Move::kDone) moved = step(slot);
  if (moved == Move::kDone) set_state(turnstile, state);
  unlock();
  return moved;
}

Move Node::lock_process(Turnstile& turnstile, const ProcessIdentity& process) {
  return change(turnstile, process, kLocked, [&](int) {
    turnstile.locker = this_thread();
    step();
    return Move::kDone;
  });
}

Move Node::unlock_process(Turnstile& turnstile, const ProcessIdentity& process) {
  return change(turnstile, process, kRunning, [](int) { return Move::kDone; });
}

void Node::note(Unmovable what) {
  lock();
  if (const int own = slot(); own >= 0) state_->processes[own].unmovable |= static_cast<std::uint32_t>(what);
  step();
  unlock();
}

Move Node::park(Turnstile& turnstile, const ProcessIdentity& process) {
  return change(turnstile, process, kCheckpointed, [&](int slot) {
    ProcessRecord& record = state_->processes[slot];
    const auto has = [&](Unmovable what) { return (record.unmovable & static_cast<std::uint32_t>(what)) != 0; };
    const DriverProfile& driver = spec_.driver;
    if ((has(Unmovable::kManaged) && !driver.checkpoint_moves_managed) ||
        (has(Unmovable::kShared) && !driver.checkpoint_moves_shared)) {
      set_state(turnstile, kFailed);
      return Move::kUnmovable;
    }
    for (std::size_t device = 0; device < models().size(); ++device) {
      const bool used = record.granules[device] > 0 || record.contexts[device] > 0;
      if (used && !models()[device].persistence) return Move::kKilled;
    }
    std::fill(record.managed, record.managed + kMaxDevices, 0);
    step();
    record.parked = 1;
    step();
    recount();
    return Move::kDone;
  });
}

Move Node::unpark(Turnstile& turnstile, const ProcessIdentity& process) {
  return change(turnstile, process, kLocked, [&](int slot) {
    ProcessRecord& record = state_->processes[slot];
    if (record.restore_failed != 0 && !spec_.driver.restore_can_be_repeated) return Move::kLost;
    for (int device = 0; device < static_cast<int>(models().size()); ++device) {
      const Bytes all = kGranule * record.granules[device] + Bytes{record.contexts[device]};
      make_room(slot, device, all);
      if (fits_locked(slot, device, all)) continue;
      record.restore_failed = 1;
      return Move::kFull;
    }
    record.parked = 0;
    step();
    recount();
    for (int device = 0; device < static_cast<int>(models().size()); ++device) note_peak(device);
    return Move::kDone;
  });
}

}  // namespace ration::sim
