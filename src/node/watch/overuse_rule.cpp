// Reports processes that use more than was charged to their book, and counts the excess as usage of the workload in the
// snapshot.
#include <algorithm>
#include <map>
#include <memory>

#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

class OveruseRule final : public Rule {
 public:
  explicit OveruseRule(Snapshot& snapshot) : snapshot_(snapshot) {}
  void run(const Moment& moment, Effects& effects) override;
  [[nodiscard]] bool is_unsettled() const override { return !violators_.empty(); }

 private:
  Snapshot& snapshot_;
  std::map<std::pair<int, std::int32_t>, int> violators_;  // number of ticks in a row, by GPU and pid
};

// Waits for the third tick: books are read just before the driver is asked, so an allocation in between looks like use
// beyond the book. Only real overuse lasts for three ticks.
void OveruseRule::run(const Moment& /*moment*/, Effects& effects) {
  constexpr int kTicksInARow = 3;
  std::map<std::pair<int, std::int32_t>, int> present;
  for (AccountView& account : snapshot_.accounts) {
    for (ProcessView& process : account.processes) {
      if (process.state != ProcessState::kViolator) continue;
      const std::pair<int, std::int32_t> key{account.gpu.value_or(-1), process.pid};
      const int ticks = present[key] = std::min(violators_[key] + 1, kTicksInARow + 1);
      if (ticks < kTicksInARow) process.state = ProcessState::kGoverned;
      if (ticks >= kTicksInARow) {
        const Bytes found = *process.driver_used - process.used_by_driver();
        const Bytes beside =
            found - std::min(found, account.unrequested);  // the account already includes `unrequested`
        account.used += beside;
        for (DeviceView& device : snapshot_.devices) {
          if (device.device.index != account.gpu) continue;
          device.governed += beside;
          if (device.unexplained) *device.unexplained -= std::min(*device.unexplained, beside);
        }
      }
      if (ticks != kTicksInARow) continue;
      effects.events.push_back(beside_book_event({account.workload, account.tenant, account.user, account.gpu},
                                                 process.pid, *process.driver_used, process.used));
    }
  }
  violators_ = std::move(present);
}

}  // namespace

std::unique_ptr<Rule> overuse_rule(Snapshot& snapshot) { return std::make_unique<OveruseRule>(snapshot); }

}  // namespace ration::node
