// While a request for a GPU's memory waits, asks the other workloads on that GPU to give back memory that they do not
// use.
#include <map>
#include <memory>
#include <set>

#include "book/store_limits.hpp"
#include "node/residency/residency_rules.hpp"

namespace ration::node {

namespace {

// The pause before a workload is asked again, since a workload that has just been asked has little more to give.
constexpr std::uint64_t kPause = 10'000'000'000;

class PressureRule final : public Rule {
 public:
  PressureRule(Residency& residency, const Demand& demand) : residency_(residency), demand_(demand) {}
  void run(const Moment& moment, Effects& effects) override;
  void forget(const std::string& path) override { asked_ns_.erase(path); }

 private:
  [[nodiscard]] bool needs_others(const AccountView& account) const;
  void ask(const Moment& moment, const std::string& path);

  Residency& residency_;
  const Demand& demand_;
  std::map<std::string, std::uint64_t> asked_ns_;  // by path
};

/// Returns true if the workload wants memory that its own limit allows, so that only memory of others is in its way.
bool PressureRule::needs_others(const AccountView& account) const {
  const Bytes wanted = demand_.of(account.path, account.account);
  return !account.suspended && wanted > Bytes{0} && account.used + wanted <= account.configured_limit;
}

void PressureRule::ask(const Moment& moment, const std::string& path) {
  const auto workload = moment.registry.workloads().find(path);
  if (workload == moment.registry.workloads().end() || residency_.trim_of(path) != nullptr) return;
  auto [asked, first] = asked_ns_.try_emplace(path, moment.now_ns);
  if (!first && moment.now_ns < asked->second + kPause) return;
  asked->second = moment.now_ns;
  if (book::request_trim(workload->second.descriptor, workload->second.owner) == book::BookStatus::kOk)
    residency_.begin_trim(moment, workload->second, kPressure);
}

void PressureRule::run(const Moment& moment, Effects&) {
  std::map<std::string, std::set<std::string>> waiters;  // by the UUID of their GPU
  for (const AccountView& account : moment.snapshot.accounts)
    if (needs_others(account)) waiters[account.uuid].insert(account.path);
  for (const AccountView& account : moment.snapshot.accounts) {
    const auto here = waiters.find(account.uuid);
    const bool other_waits = here != waiters.end() && (here->second.size() > 1 || !here->second.contains(account.path));
    if (account.pooled > Bytes{0} && !account.suspended && (other_waits || moment.queue_length > 0))
      ask(moment, account.path);
  }
}

}  // namespace

std::unique_ptr<Rule> pressure_rule(Residency& residency, const Demand& demand) {
  return std::make_unique<PressureRule>(residency, demand);
}

}  // namespace ration::node
