// Resumes suspended workloads that request it, once their devices have room.
#include <algorithm>
#include <map>
#include <memory>

#include "node/residency/residency_rules.hpp"

namespace ration::node {

namespace {

/// The device memory that must be free in addition to the memory that returns. The driver's own need during a restore
/// is unknown, and after a restore without room, no later restore succeeds (NVIDIA/cuda-checkpoint issue 44).
constexpr Bytes kRestoreMargin{std::uint64_t{256} << 20};

class ResumeRule final : public Rule {
 public:
  ResumeRule(Residency& residency, Limits& limits) : residency_(residency), limits_(limits) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  Residency& residency_;
  Limits& limits_;
};

// Requires free memory for everything that returns, plus kRestoreMargin, but never more than can be free on the device.
void ResumeRule::run(const Moment& moment, Effects& effects) {
  if (!moment.machine) return;
  std::map<book::DeviceUuid, Bytes> free, most;
  for (const machine::Device& device : moment.machine->devices) {
    const Bytes beside = device.reserved.value_or(Bytes{0}) + machine::orphaned(device).value_or(Bytes{0});
    free[device.bytes] = device.room();
    most[device.bytes] = device.total - std::min(device.total, beside);
  }
  for (const auto& [path, workload] : moment.registry.workloads()) {
    if (!residency_.may_resume(path)) continue;
    const auto& accounts = workload.book.accounts;
    OwnedWorkload* owned = limits_.find(path);
    std::vector<Bytes> bytes = workload.used;
    for (std::size_t i = 0; owned != nullptr && i < std::min(bytes.size(), owned->accounts.size()); ++i)
      bytes[i] = std::max(bytes[i], owned->accounts[i].moved);
    bool fits = true;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      const auto& device = accounts[i].device;
      fits = fits && free[device] >= std::min(bytes[i] + kRestoreMargin, most[device]);
    }
    if (!fits) continue;
    if (!residency_.resume(path)) continue;
    for (std::size_t i = 0; i < accounts.size(); ++i)
      free[accounts[i].device] -= std::min(free[accounts[i].device], bytes[i]);
    if (owned != nullptr) residency_.set_guarantee_lapsed(moment, workload, *owned, false, effects.events);
  }
}

}  // namespace

std::unique_ptr<Rule> resume_rule(Residency& residency, Limits& limits) {
  return std::make_unique<ResumeRule>(residency, limits);
}

}  // namespace ration::node
