// Corrects books into which their owners wrote other limits. Runs before the snapshot.
#include <memory>

#include "base/say.hpp"
#include "book/store_limits.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

void note_altered(NodeState& state, const Workload& workload, const Message& what, Events& events) {
  if (state.limits.note_altered(workload.path, what))
    events.push_back(altered_event(event_subject(state, workload), workload.book.labels, what));
}

class TamperRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
};

void TamperRule::run(NodeState& state, Events& events) {
  const auto& workloads = state.registry.workloads();
  for (const std::string& path : state.changes.altered)
    if (const auto found = workloads.find(path); found != workloads.end())
      note_altered(state, found->second, found->second.unreadable, events);
  for (const auto& [path, size] : state.changes.grown) {
    const auto found = workloads.find(path);
    if (found == workloads.end() || !book::cut_to_size(found->second.descriptor, found->second.owner)) continue;
    events.push_back(grown_event(event_subject(state, found->second), size));
    if (!found->second.granted.empty()) note_altered(state, found->second, say<"book.longer">(), events);
  }
  std::vector<std::string> failed;
  for (const Alteration& altered : state.limits.enforce(state.registry, failed)) {
    const Workload& workload = workloads.at(altered.path);
    const auto event = altered.unwatched ? put_back_event : tampered_event;
    events.push_back(event(event_subject(state, workload, workload.book.accounts[altered.account].device),
                           altered.is_guarantee, altered.found, altered.owned));
    if (!workload.granted.empty() && !altered.unwatched)
      note_altered(state, workload, altered.is_guarantee ? say<"book.other_guarantee">() : say<"book.other_limit">(),
                   events);
  }
  for (const std::string& book : failed) events.push_back(limit_unwritable_event(book));
}

}  // namespace

std::unique_ptr<Rule> tamper_rule() { return std::make_unique<TamperRule>(); }

}  // namespace ration::node
