// Withdraws guarantees that cannot be kept. Runs as the first rule after the snapshot. In the snapshot, an unchecked
// guarantee does not count yet.
#include <algorithm>

#include "machine/user_names.hpp"
#include "node/limits/limits_rules.hpp"

namespace ration::node {

namespace {

class GuaranteeRule final : public Rule {
 public:
  GuaranteeRule(Snapshot& snapshot, Limits& limits, LimitMoves& moves, UncheckedGuarantees& unchecked,
                const DevicePromises& promises)
      : snapshot_(snapshot), limits_(limits), moves_(moves), unchecked_(unchecked), promises_(promises) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  [[nodiscard]] Result<void> can_keep(const Moment& moment, const AccountView& account, Bytes guarantee) const;
  void withdraw(const Moment& moment, const AccountView& account, Bytes guarantee, const Error& why, Events& events);

  Snapshot& snapshot_;
  Limits& limits_;
  LimitMoves& moves_;
  UncheckedGuarantees& unchecked_;
  const DevicePromises& promises_;
};

Result<void> GuaranteeRule::can_keep(const Moment& moment, const AccountView& account, Bytes guarantee) const {
  const auto& devices = moment.snapshot.devices;
  const auto device = std::find_if(devices.begin(), devices.end(),
                                   [&](const DeviceView& each) { return each.device.index == *account.gpu; });
  // The workload's own slice does not count as taken.
  RATION_TRY(promises_.can_promise(moment, *device, account.tenant, guarantee, account.path));
  if (unchecked_.has_resumed(account.path) || machine::is_operator(moment.registry.workloads().at(account.path).owner))
    return {};
  if (guarantee <= unchecked_.leased_to(account.path, *account.gpu)) return {};
  return promises_.may_promise(moment, *device, account.tenant, guarantee, "");
}

void GuaranteeRule::withdraw(const Moment& moment, const AccountView& account, Bytes guarantee, const Error& why,
                             Events& events) {
  const Workload& workload = moment.registry.workloads().at(account.path);
  report_limit_moves(moment, moves_, workload, events);
  events.push_back(
      no_guarantee_event(event_subject(moment, workload), guarantee, unchecked_.has_resumed(account.path), why));
  limits_.find(account.path)->accounts[account.account].guarantee = Bytes{0};
  limits_.changed();
  if (const auto written = limits_.write(workload); !written)
    events.push_back(book_unwritable_event({}, written.error()));
}

void GuaranteeRule::run(const Moment& moment, Effects& effects) {
  if (!moment.machine) return;  // a later tick checks the guarantees
  std::vector<AccountView*> asked;
  for (AccountView& account : snapshot_.accounts)
    if (account.gpu && unchecked_.has(account.path)) asked.push_back(&account);
  std::stable_sort(asked.begin(), asked.end(), [](const AccountView* one, const AccountView* other) {
    return one->started_ns < other->started_ns;
  });
  for (AccountView* account : asked) {
    const Bytes guarantee = limits_.find(account->path)->accounts[account->account].guarantee;
    if (guarantee == Bytes{0}) continue;
    if (const auto kept = can_keep(moment, *account, guarantee); kept)
      account->guarantee = guarantee;
    else
      withdraw(moment, *account, guarantee, kept.error(), effects.events);
  }
  if (!asked.empty())
    for (DeviceView& device : snapshot_.devices) promises_.note(moment, device);
  unchecked_.clear();
}

}  // namespace

std::unique_ptr<Rule> guarantee_rule(Snapshot& snapshot, Limits& limits, LimitMoves& moves,
                                     UncheckedGuarantees& unchecked, const DevicePromises& promises) {
  return std::make_unique<GuaranteeRule>(snapshot, limits, moves, unchecked, promises);
}

}  // namespace ration::node
