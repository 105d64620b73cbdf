#include "node/accounting/sampler.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/labels.hpp"
#include "node/queue/run_lengths.hpp"

namespace ration::node {
namespace {

/// Ranks an account by how far its usage can be trusted. Usage that the driver confirms comes first, then usage that
/// the driver does not report, then usage that exceeds the driver's figure. Within each rank, a smaller excess over the
/// driver's figure (or over the limit, if the driver reports none) comes first.
std::pair<int, Bytes> overreport_rank(const AccountView& account) {
  Bytes seen;
  bool reported = true;
  for (const ProcessView& process : account.processes) {
    seen += process.driver_used.value_or(Bytes{0}) + process.managed;
    reported = reported && process.driver_used;
  }
  const Bytes beyond = account.used - std::min(account.used, reported ? seen : account.limit);
  return {reported ? beyond > Bytes{0} ? 2 : 0 : 1, beyond};
}

/// Orders accounts so that accounts of a book that claims too much come last, and do not distort the other accounts.
std::vector<const AccountView*> trusted_first(const std::vector<AccountView>& accounts) {
  std::vector<const AccountView*> order;
  for (const AccountView& account : accounts) order.push_back(&account);
  std::stable_sort(order.begin(), order.end(), [](const AccountView* left, const AccountView* right) {
    return overreport_rank(*left) < overreport_rank(*right);
  });
  return order;
}

/// Returns the labels. Leaves out `slurm_job` unless the hook for Slurm, which runs as root, wrote it: a label by
/// another user must not add to the sums of a job.
std::string trusted_labels(const Workload& workload) {
  auto labels = parse_labels(workload.book.labels);
  if (workload.owner == 0 || labels.erase(kSlurmJobLabel) == 0) return workload.book.labels;
  std::vector<std::string> rest;
  for (const auto& [name, value] : labels) rest.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(rest, ","));
}

}  // namespace

history::Sample sample_of(const Moment& moment, const std::vector<Workload>& ended) {
  history::Sample sample;
  sample.time_ns = static_cast<std::int64_t>(moment.snapshot.time_ns);
  const auto peak_of = [](const book::AccountSnapshot& account) {
    return std::min(account.peak, Bytes{history::kMaxDevice});
  };
  std::map<std::string, std::size_t> device_index;
  std::vector<Bytes> remaining;  // bytes not yet assigned, by device index
  for (const DeviceView& device : moment.snapshot.devices) {
    device_index[device.device.uuid] = sample.devices.size();
    remaining.push_back(device.device.total);
    sample.devices.push_back({device.device.uuid, device.device.name, device.device.total,
                              device.device.total - std::min(device.device.total, device.device.room()),
                              device.ungoverned,
                              device.unexplained.value_or(Bytes{0}) + device.orphaned.value_or(Bytes{0})});
  }
  constexpr Bytes kMost{history::kMaxDevice};  // a book may claim anything
  std::set<history::RunKey> runs;
  const auto add_pinned = [&](const Workload& workload, Bytes used, history::TimeMs end) {
    const auto run = history::run_key(workload.book.run_number, workload.book.created_ns);
    if (!workload.book.host.counted || !runs.insert(run).second) return;
    sample.pinned.push_back(
        {run, std::min(used, kMost), std::min(workload.book.host.peak, kMost), workload.book.host.denials, end});
  };
  for (const AccountView* each : trusted_first(moment.snapshot.accounts)) {
    const AccountView& account = *each;
    const auto place = device_index.find(account.uuid);
    if (place == device_index.end()) continue;
    const Workload& workload = moment.registry.workloads().at(account.path);
    const Bytes used = std::min(account.trusted_usage(), remaining[place->second]);
    remaining[place->second] -= used;
    const book::AccountSnapshot& book = workload.book.accounts[account.account];
    add_pinned(workload, workload.host_used, 0);
    sample.workloads.push_back(
        {history::run_key(account.run, account.started_ns), account.workload, account.tenant, account.user,
         trusted_labels(workload), place->second, used,
         account.suspended ? Bytes{0} : account.limit,  // a suspended workload has no memory reserved
         account.suspended ? Bytes{0} : account.guarantee, account.suspended ? used : peak_of(book), book.denials,
         history::TimeMs{0}, command_hash(account.command)});
  }
  // A run that started and ended between two ticks, or whose requests were all denied, has no usage, but is recorded.
  for (const Workload& workload : ended) {
    for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account) {
      const auto place = std::find_if(
          moment.snapshot.devices.begin(), moment.snapshot.devices.end(),
          [&](const DeviceView& device) { return device.device.bytes == workload.book.accounts[account].device; });
      if (place == moment.snapshot.devices.end()) continue;
      add_pinned(workload, Bytes{0}, history::to_ms(workload.book.ended_ns));
      sample.workloads.push_back({history::run_key(workload.book.run_number, workload.book.created_ns),
                                  workload.book.name, workload.book.tenant, workload.user, trusted_labels(workload),
                                  static_cast<std::size_t>(place - moment.snapshot.devices.begin()), Bytes{0},
                                  workload.book.accounts[account].limit, Bytes{0},
                                  peak_of(workload.book.accounts[account]), workload.book.accounts[account].denials,
                                  history::to_ms(workload.book.ended_ns), command_hash(workload.book.command)});
    }
  }
  return sample;
}

}  // namespace ration::node
