// Whose turn it is on a device that has less memory than its workloads.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "node/decisions/idle.hpp"

namespace ration::node {

Result<void> Residency::add(const std::string& id, Bytes size) {
  if (size > capacity_) {
    return fail("E1104",
                fmt::format("{} may hold {}, the device has {}.", id, format_size(size), format_size(capacity_)),
                fmt::format("ration set {} --limit {}MiB", id, capacity_.count() >> 20), 2);
  }
  Workload fresh;
  fresh.size = size;
  workloads_.try_emplace(id, fresh);
  return {};
}

void Residency::remove(const std::string& id) {
  workloads_.erase(id);
  std::erase(asking_, id);
}

bool Residency::ask(const std::string& id, std::uint64_t now_ns) {
  const auto found = workloads_.find(id);
  if (found == workloads_.end()) return false;
  if (found->second.state == State::kHere) {
    found->second.active = true;
    found->second.idle_since = now_ns;
    return true;
  }
  const bool coming = found->second.state == State::kComing;
  if (!coming && std::find(asking_.begin(), asking_.end(), id) == asking_.end()) asking_.push_back(id);
  return false;
}

void Residency::rest(const std::string& id, std::uint64_t now_ns) {
  std::erase(asking_, id);
  const auto found = workloads_.find(id);
  if (found == workloads_.end() || !found->second.active) return;
  found->second.active = false;
  found->second.idle_since = now_ns;
}

void Residency::suspended(const std::string& id) {
  if (const auto found = workloads_.find(id); found != workloads_.end()) found->second.state = State::kAway;
}

void Residency::resumed(const std::string& id, std::uint64_t now_ns) {
  const auto found = workloads_.find(id);
  if (found == workloads_.end()) return;
  Workload& workload = found->second;
  workload.state = State::kHere;
  workload.active = true;  // it was brought back because it asked
  workload.here_since = workload.idle_since = now_ns;
}

Bytes Residency::taken() const {
  Bytes sum;
  for (const auto& [id, workload] : workloads_) {
    if (workload.state != State::kAway) sum += workload.size;
  }
  return sum;
}

/// Whom to suspend for so many bytes: the longest idle first, then without those that turned out not to be needed.
/// Empty: they are not enough.
std::vector<std::string> Residency::sacrifices(Bytes lacking, std::uint64_t now) const {
  std::vector<std::pair<std::uint64_t, std::string>> idle;
  for (const auto& [id, workload] : workloads_) {
    if (workload.state == State::kHere && !workload.active && now >= workload.here_since + kMinimumResidence)
      idle.emplace_back(workload.idle_since, id);
  }
  std::sort(idle.begin(), idle.end());
  Bytes gained;
  std::vector<std::string> chosen;
  for (const auto& [since, id] : idle) {
    if (gained >= lacking) break;
    chosen.push_back(id);
    gained += workloads_.at(id).size;
  }
  if (gained < lacking) return {};
  for (auto last = chosen.end(); last != chosen.begin();) {
    --last;
    const Bytes size = workloads_.at(*last).size;
    if (gained - size < lacking) continue;
    gained -= size;
    last = chosen.erase(last);
  }
  return chosen;
}

ResidencyActions Residency::step(std::uint64_t now_ns) {
  ResidencyActions actions;
  // `spoken_for` counts what earlier askers will get, too: nobody passes them.
  Bytes spoken_for = taken(), leaving;
  for (const auto& [id, workload] : workloads_) {
    if (workload.state == State::kLeaving) leaving += workload.size;
  }
  for (const std::string& id : asking_) {
    Workload& workload = workloads_.at(id);
    if (workload.state == State::kLeaving) break;  // it asked too late to stay, and comes back in its turn
    const Bytes wanted = spoken_for + workload.size;
    if (wanted <= capacity_) {
      workload.state = State::kComing;
      actions.resume.push_back(id);
    } else if (wanted > capacity_ + leaving) {
      const auto chosen = sacrifices(wanted - capacity_ - leaving, now_ns);
      if (chosen.empty()) break;
      for (const std::string& other : chosen) {
        workloads_.at(other).state = State::kLeaving;
        leaving += workloads_.at(other).size;
        actions.suspend.push_back(other);
      }
    }
    spoken_for = wanted;
  }
  for (const std::string& id : actions.resume) std::erase(asking_, id);
  return actions;
}

std::optional<std::uint64_t> Residency::next_change(std::uint64_t now_ns) const {
  std::optional<std::uint64_t> next;
  if (asking_.empty()) return next;
  for (const auto& [id, workload] : workloads_) {
    const std::uint64_t free_to_go = workload.here_since + kMinimumResidence;
    if (workload.state == State::kHere && !workload.active && free_to_go > now_ns && (!next || free_to_go < *next))
      next = free_to_go;
  }
  return next;
}

std::size_t Residency::position(const std::string& id) const {
  const auto found = std::find(asking_.begin(), asking_.end(), id);
  return found == asking_.end() ? 0 : static_cast<std::size_t>(found - asking_.begin()) + 1;
}

}  // namespace ration::node
