#include "node/state/node_state.hpp"

#include <unistd.h>

#include <ctime>

#include "machine/user_names.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {
namespace {

std::string in(const std::string& folder, const char* file) { return folder.empty() ? "" : folder + "/" + file; }

std::unique_ptr<CheckpointJobs> jobs_of(NodeOptions& options) {
  if (options.checkpoint_jobs != nullptr) return std::move(options.checkpoint_jobs);
  return std::make_unique<CheckpointProcesses>("/proc/self/exe", options.driver_folder,
                                               in(options.state_folder, "checkpoint.lock"));
}

}  // namespace

NodeState::NodeState(NodeOptions wanted, config::Configuration configured)
    : options(std::move(wanted)),
      configuration(std::move(configured)),
      configured_schedules(configuration.schedules),
      limits(in(options.state_folder, "limits.json")),
      tenants(in(options.state_folder, "tenants.json")),
      schedules(in(options.state_folder, "schedules.json")),
      container_claims(in(options.state_folder, "claims.json")),
      suspension(jobs_of(options)) {
  if (!options.query_devices)
    options.query_devices = [folder = options.driver_folder] { return machine::query_devices(folder); };
  apply_schedules(*this);
}

void NodeState::forget(const Workload& workload) {
  running.erase(workload.path);
  limits.forget(workload.path);
  limit_moves.forget(workload.path);
  suspension.forget(workload.path);
  forgotten.push_back(workload.path);
}

std::optional<int> gpu_of(const NodeState& state, const book::DeviceUuid& uuid) {
  if (!state.machine) return std::nullopt;
  for (const machine::Device& device : state.machine->devices)
    if (device.bytes == uuid) return device.index;
  return std::nullopt;
}

EventSubject event_subject(const NodeState& state, const Workload& workload) {
  EventSubject found{workload.book.name, workload.book.tenant, workload.user, {}};
  if (!workload.book.accounts.empty()) found.gpu = gpu_of(state, workload.book.accounts.front().device);
  return found;
}

EventSubject event_subject(const NodeState& state, const Workload& workload, const book::DeviceUuid& device) {
  return {workload.book.name, workload.book.tenant, workload.user, gpu_of(state, device)};
}

const config::Policy* policy_of(NodeState& state, const Workload& workload) {
  std::optional<const config::Policy*>& known = state.running[workload.path].policy;
  if (known) return *known;
  config::Subject subject = subject_of(workload);
  subject.asked_tenant = workload.book.tenant;
  if (const auto creator = creator_of(workload)) subject.cgroup = cgroup_of(*creator);
  return *(known = config::policy_for(state.configuration, subject));
}

Bytes sum(const std::vector<Bytes>& parts) {
  Bytes total;
  for (const Bytes part : parts) total += part;
  return total;
}

config::LocalTime local_time(std::uint64_t time_of_day_ns) {
  const auto seconds = static_cast<std::time_t>(time_of_day_ns / 1'000'000'000U);
  std::tm broken{};
  ::localtime_r(&seconds, &broken);
  return {broken.tm_wday, broken.tm_hour, broken.tm_min};
}

std::vector<const ContainerClaim*> claims_of(const NodeState& state, std::uint32_t owner, const std::string& labels,
                                             const std::string& uuid) {
  std::vector<const ContainerClaim*> claims;
  if (owner != ::getuid()) return claims;
  for (const std::string& id : claim_ids(labels))
    if (const ContainerClaim* claim = state.container_claims.find(id);
        claim != nullptr && claim->share_of(uuid) != nullptr)
      claims.push_back(claim);
  return claims;
}

void apply_schedules(NodeState& state) {
  std::vector<config::Schedule> all;
  for (const ScheduleRequest& request : state.schedules.all())
    if (auto schedule = to_schedule(request, state.configuration)) all.push_back(std::move(*schedule));
  all.insert(all.end(), state.configured_schedules.begin(), state.configured_schedules.end());
  state.configuration.schedules = std::move(all);
}

}  // namespace ration::node
