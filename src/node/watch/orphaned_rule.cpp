// Reports device memory in use that belongs to no process the driver lists.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "machine/process_origin.hpp"
#include "node/limits/settled.hpp"
#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

class OrphanedRule final : public Rule {
 public:
  void run(const Moment& moment, Effects& effects) override;

 private:
  struct Orphaned {
    Settled amount;
    bool reported = false;
  };
  std::map<std::string, Orphaned> orphaned_;  // by UUID of the device
};

void OrphanedRule::run(const Moment& moment, Effects& effects) {
  constexpr Bytes kReportable{std::uint64_t{256} << 20};  // less than one context may be an error of measurement
  for (const DeviceView& device : moment.snapshot.devices) {
    if (!device.orphaned) continue;
    Orphaned& known = orphaned_[device.device.uuid];
    const Bytes now = known.amount.note(*device.orphaned);
    const bool was_reported = std::exchange(known.reported, now >= kReportable);
    if (was_reported || !known.reported) continue;
    const auto& mig = device.device.mig;
    const std::string path = fmt::format("/dev/nvidia{}", mig ? mig->gpu : device.device.index);
    effects.events.push_back(orphaned_event(device.device.index, now, path, machine::openers_of(path)));
  }
}

}  // namespace

std::unique_ptr<Rule> orphaned_rule() { return std::make_unique<OrphanedRule>(); }

}  // namespace ration::node
