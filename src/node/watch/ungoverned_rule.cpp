// Reports processes with device memory that are in no book.
#include <algorithm>
#include <map>
#include <memory>

#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

class UngovernedRule final : public Rule {
 public:
  void run(const Moment& moment, Effects& effects) override;
  [[nodiscard]] bool is_unsettled() const override;

 private:
  std::map<std::pair<int, std::int32_t>, bool> known_;  // true once reported, by GPU and pid
};

void UngovernedRule::run(const Moment& moment, Effects& effects) {
  // Waits for the second tick, since a program may make its book after the books were read and before the driver was
  // asked.
  std::map<std::pair<int, std::int32_t>, bool> present;
  for (const UngovernedView& view : moment.snapshot.ungoverned) {
    const auto known = known_.find({view.gpu, view.process.pid});
    const bool seen_before = known != known_.end();
    present[{view.gpu, view.process.pid}] = seen_before;
    if (!seen_before || known->second) continue;
    effects.events.push_back(ungoverned_event(view));
  }
  known_ = std::move(present);
}

bool UngovernedRule::is_unsettled() const {
  return std::any_of(known_.begin(), known_.end(), [](const auto& each) { return !each.second; });
}

}  // namespace

std::unique_ptr<Rule> ungoverned_rule() { return std::make_unique<UngovernedRule>(); }

}  // namespace ration::node
