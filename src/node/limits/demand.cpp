#include "node/limits/demand.hpp"

#include <algorithm>

namespace ration::node {

void Demand::note(const Workload& workload, const std::vector<book::Denial>& denied) {
  std::vector<Bytes>& wanted = wanted_[workload.path];
  wanted = workload.book.wanted;
  wanted.resize(workload.book.accounts.size());
  for (const book::Denial& denial : denied)
    if (denial.account < wanted.size()) wanted[denial.account] = std::max(wanted[denial.account], denial.requested);
}

Bytes Demand::of(const std::string& path, std::uint32_t account) const {
  const auto found = wanted_.find(path);
  return found == wanted_.end() || account >= found->second.size() ? Bytes{0} : found->second[account];
}

void RecentDenials::note(const Workload& workload, std::uint64_t now_ns, std::uint64_t time_of_day_ns) {
  for (const book::Denial& denial : workload.book.denials)
    times_[workload.book.tenant + "/" + workload.book.name].push_back(
        now_ns - (time_of_day_ns - std::min(denial.time_ns, time_of_day_ns)));
}

std::map<std::string, std::size_t> RecentDenials::counts(std::uint64_t now_ns) {
  constexpr std::uint64_t kMinuteNs = 60'000'000'000;
  std::map<std::string, std::size_t> found;
  for (auto& [name, times] : times_) {
    std::erase_if(times, [&](std::uint64_t time) { return time + kMinuteNs < now_ns; });
    if (!times.empty()) found[name] = times.size();
  }
  std::erase_if(times_, [](const auto& entry) { return entry.second.empty(); });
  return found;
}

}  // namespace ration::node
