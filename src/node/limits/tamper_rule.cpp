// Corrects books into which their owners wrote other limits. Runs before the snapshot.
#include <memory>

#include "base/say.hpp"
#include "book/store_limits.hpp"
#include "node/limits/limits_rules.hpp"

namespace ration::node {

namespace {

class TamperRule final : public Rule {
 public:
  explicit TamperRule(Limits& limits) : limits_(limits) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  void note_altered(const Moment& moment, const Workload& workload, const Message& what, Events& events);

  Limits& limits_;
};

void TamperRule::note_altered(const Moment& moment, const Workload& workload, const Message& what, Events& events) {
  if (limits_.note_altered(workload.path, what))
    events.push_back(altered_event(event_subject(moment, workload), workload.book.labels, what));
}

void TamperRule::run(const Moment& moment, Effects& effects) {
  Events& events = effects.events;
  const auto& workloads = moment.registry.workloads();
  for (const std::string& path : moment.changes.altered)
    if (const auto found = workloads.find(path); found != workloads.end())
      note_altered(moment, found->second, found->second.unreadable, events);
  for (const auto& [path, size] : moment.changes.grown) {
    const auto found = workloads.find(path);
    if (found == workloads.end() || !book::cut_to_size(found->second.descriptor, found->second.owner)) continue;
    events.push_back(grown_event(event_subject(moment, found->second), size));
    if (!found->second.granted.empty()) note_altered(moment, found->second, say<"book.longer">(), events);
  }
  std::vector<std::string> failed;
  for (const Alteration& altered : limits_.enforce(moment.registry, failed)) {
    const Workload& workload = workloads.at(altered.path);
    const auto event = altered.unwatched ? put_back_event : tampered_event;
    const auto& accounts = workload.book.accounts;
    const book::DeviceUuid device =
        altered.account < accounts.size() ? accounts[altered.account].device : book::DeviceUuid{};
    events.push_back(event(event_subject(moment, workload, device), altered.number, altered.found, altered.owned));
    if (!workload.granted.empty() && !altered.unwatched)
      note_altered(moment, workload, other_number(altered.number), events);
  }
  for (const std::string& book : failed) events.push_back(limit_unwritable_event(book));
}

}  // namespace

std::unique_ptr<Rule> tamper_rule(Limits& limits) { return std::make_unique<TamperRule>(limits); }

}  // namespace ration::node
