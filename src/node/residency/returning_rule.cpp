// Brings suspended workloads that ask for it back onto their device once it has room.
#include <algorithm>
#include <map>
#include <memory>

#include "node/residency/residency.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

/// What a device has to have free beside what comes back: after one restore without room no other succeeds
/// (NVIDIA/cuda-checkpoint issue 44), and what the driver needs meanwhile is not known.
constexpr Bytes kRestoreMargin{std::uint64_t{256} << 20};

class ReturnRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

// What was promised has to be there, too, and a margin: see kRestoreMargin. But no more than there can ever be.
void ReturnRule::run(NodeState& state, Events& events) {
  if (!state.machine) return;
  std::map<book::DeviceUuid, Bytes> free, most;
  for (const machine::Device& device : state.machine->devices) {
    const Bytes beside = device.reserved.value_or(Bytes{0}) + machine::orphaned(device).value_or(Bytes{0});
    free[device.bytes] = device.room();
    most[device.bytes] = device.total - std::min(device.total, beside);
  }
  for (const auto& [path, workload] : state.registry.workloads()) {
    bool& may_return = state.running[path].may_return;
    if (!may_return) continue;
    const auto& accounts = workload.book.accounts;
    OwnedWorkload* owned = state.limits.find(path);
    std::vector<Bytes> bytes = workload.used;
    for (std::size_t i = 0; owned != nullptr && i < std::min(bytes.size(), owned->accounts.size()); ++i)
      bytes[i] = std::max(bytes[i], owned->accounts[i].moved);
    bool fits = true;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      const auto& device = accounts[i].device;
      fits = fits && free[device] >= std::min(bytes[i] + kRestoreMargin, most[device]);
    }
    if (!fits) continue;
    may_return = false;
    if (!state.suspension.resume(path)) continue;
    for (std::size_t i = 0; i < accounts.size(); ++i)
      free[accounts[i].device] -= std::min(free[accounts[i].device], bytes[i]);
    if (owned != nullptr) set_away(state, workload, *owned, false, events);
  }
}

}  // namespace

std::unique_ptr<Rule> return_rule() { return std::make_unique<ReturnRule>(); }

}  // namespace ration::node
