// Resumes suspended workloads that request it, once their devices have room.
#include <algorithm>
#include <map>
#include <memory>

#include "node/residency/residency.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

/// Free device memory required beyond what returns: after a restore without room no later one succeeds
/// (NVIDIA/cuda-checkpoint issue 44), and the driver's own need during a restore is unknown.
constexpr Bytes kRestoreMargin{std::uint64_t{256} << 20};

class ResumeRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

// Requires room for the guarantees and kRestoreMargin, but at most what the device can ever have free.
void ResumeRule::run(NodeState& state, Events& events) {
  if (!state.machine) return;
  std::map<book::DeviceUuid, Bytes> free, most;
  for (const machine::Device& device : state.machine->devices) {
    const Bytes beside = device.reserved.value_or(Bytes{0}) + machine::orphaned(device).value_or(Bytes{0});
    free[device.bytes] = device.room();
    most[device.bytes] = device.total - std::min(device.total, beside);
  }
  for (const auto& [path, workload] : state.registry.workloads()) {
    bool& may_resume = state.running[path].may_resume;
    if (!may_resume) continue;
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
    may_resume = false;
    if (!state.suspension.resume(path)) continue;
    for (std::size_t i = 0; i < accounts.size(); ++i)
      free[accounts[i].device] -= std::min(free[accounts[i].device], bytes[i]);
    if (owned != nullptr) set_guarantee_lapsed(state, workload, *owned, false, events);
  }
}

}  // namespace

std::unique_ptr<Rule> resume_rule() { return std::make_unique<ResumeRule>(); }

}  // namespace ration::node
