// Repeats the changes that `ration set` made while no daemon ran, in the name of the folder's owner. Applies to
// workloads that an earlier daemon knew and that this daemon has just found. TamperRule reverts the changes that the
// owner may not make.
#include <fmt/format.h>

#include <map>

#include "machine/user_names.hpp"
#include "node/limits/limits_requests.hpp"
#include "node/limits/limits_rules.hpp"
#include "node/limits/unwatched_changes.hpp"

namespace ration::node {

namespace {

class UnwatchedChangesRule final : public Rule {
 public:
  UnwatchedChangesRule(Limits& limits, LimitMoves& moves, UncheckedGuarantees& unchecked,
                       const DevicePromises& promises)
      : limits_(limits), moves_(moves), unchecked_(unchecked), promises_(promises) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  void repeat(const Moment& moment, const Workload& workload, const UnwatchedChange& change, Events& events);

  Limits& limits_;
  LimitMoves& moves_;
  UncheckedGuarantees& unchecked_;
  const DevicePromises& promises_;
};

void UnwatchedChangesRule::repeat(const Moment& moment, const Workload& workload, const UnwatchedChange& change,
                                  Events& events) {
  const Caller caller{machine::user_name(workload.owner), workload.owner, machine::is_operator(workload.owner)};
  if (change.host_limit && workload.book.host.limit == *change.host_limit) {
    LimitRequest request;
    request.workload = workload.book.name;
    request.host_limit =
        *change.host_limit < kUnlimited ? fmt::format("{}B", change.host_limit->count()) : std::string("unlimited");
    if (!change_limits({moment, limits_, moves_, promises_}, workload, request, caller, events))
      limits_.mark_unwatched(workload.path);
  }
  for (const auto& [number, account] : change.accounts) {
    if (number >= workload.book.accounts.size()) continue;
    const book::AccountSnapshot& entry = workload.book.accounts[number];
    const machine::Device* device = device_of(moment, entry.device);
    if (device == nullptr) continue;
    LimitRequest request;
    request.workload = workload.book.name;
    request.gpu = device->uuid;
    // Skips a value that the book no longer contains, since it was changed again later.
    if (account.limit && entry.limit == *account.limit) request.limit = fmt::format("{}B", entry.limit.count());
    if (account.guarantee && entry.guarantee == *account.guarantee)
      request.guarantee = fmt::format("{}B", entry.guarantee.count());
    if (request.limit.empty() && request.guarantee.empty()) continue;
    if (!change_limits({moment, limits_, moves_, promises_}, workload, request, caller, events))
      limits_.mark_unwatched(workload.path);
    // There is no snapshot yet, so the guarantee is checked later.
    if (!request.guarantee.empty()) unchecked_.add(workload.path);
  }
}

void UnwatchedChangesRule::run(const Moment& moment, Effects& effects) {
  std::map<std::string, UnwatchedChanges> of_folder;
  for (const std::string& path : moment.changes.started) {
    const auto found = moment.registry.workloads().find(path);
    const OwnedWorkload* owned = limits_.find(path);
    if (owned == nullptr || found == moment.registry.workloads().end()) continue;
    const Workload& workload = found->second;
    const std::string folder = folder_of(path);
    if (!of_folder.contains(folder)) of_folder[folder] = read_unwatched_changes(folder, workload.owner);
    const auto noted = of_folder[folder].find(path);
    if (noted == of_folder[folder].end() || noted->second.file_number != workload.file_number ||
        owned->file_number != workload.file_number || noted->second.time_ns <= owned->changed_ns)
      continue;
    repeat(moment, workload, noted->second, effects.events);
  }
}

}  // namespace

std::unique_ptr<Rule> unwatched_changes_rule(Limits& limits, LimitMoves& moves, UncheckedGuarantees& unchecked,
                                             const DevicePromises& promises) {
  return std::make_unique<UnwatchedChangesRule>(limits, moves, unchecked, promises);
}

}  // namespace ration::node
