// Reports when a workload's usage begins to exceed a lowered limit, and when the excess ends.
#include <map>
#include <memory>

#include "node/limits/limits_rules.hpp"

namespace ration::node {

namespace {

class ShrinkingRule final : public Rule {
 public:
  explicit ShrinkingRule(LimitMoves& moves) : moves_(moves) {}
  void run(const Moment& moment, Effects& effects) override;
  void forget(const std::string& path) override;

 private:
  struct Shrinking {
    Bytes limit;  // the limit that was last reported as exceeded
    bool over = false;
  };
  LimitMoves& moves_;
  std::map<std::pair<std::string, std::uint32_t>, Shrinking> shrinking_;  // by path and account
};

// Reports the excess once per limit. Memory in use is never taken away.
void ShrinkingRule::run(const Moment& moment, Effects& effects) {
  Events& events = effects.events;
  for (const AccountView& account : moment.snapshot.accounts) {
    const auto known = shrinking_.find({account.path, account.account});
    const bool over = account.shrinking(), was_over = known != shrinking_.end() && known->second.over;
    const bool reported = over && known != shrinking_.end() && known->second.limit <= account.limit;
    if (account.suspended || reported || (!over && !was_over)) continue;
    const auto running = moment.registry.workloads().find(account.path);
    if (running == moment.registry.workloads().end()) continue;
    report_limit_moves(moment, moves_, running->second, events);
    const EventSubject who = event_subject(moment, running->second);
    events.push_back(
        over ? shrinking_event(who, {account.used, account.limit, account.movable, account.pooled, account.context})
             : under_limit_event(who));
    events.back().gpu = account.gpu;
    shrinking_[{account.path, account.account}] = {over ? account.limit : known->second.limit, over};
  }
}

void ShrinkingRule::forget(const std::string& path) {
  std::erase_if(shrinking_, [&](const auto& entry) { return entry.first.first == path; });
}

}  // namespace

std::unique_ptr<Rule> shrinking_rule(LimitMoves& moves) { return std::make_unique<ShrinkingRule>(moves); }

}  // namespace ration::node
