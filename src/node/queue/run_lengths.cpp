#include "node/queue/run_lengths.hpp"

#include <algorithm>

#include "base/stable_hash.hpp"

namespace ration::node {

std::optional<std::uint64_t> RunLengths::shortest_above(std::uint64_t ns) const {
  const auto above = std::upper_bound(lengths_ns.begin(), lengths_ns.end(), ns);
  if (above == lengths_ns.end()) return std::nullopt;
  return *above;
}

std::uint64_t command_hash(std::string_view command) { return stable_hash(command.substr(0, kCommandCompared)); }

std::string name_without_number(const std::string& workload, std::uint64_t run_number) {
  const std::string end = "-" + std::to_string(run_number);
  return workload.ends_with(end) ? workload.substr(0, workload.size() - end.size()) : workload;
}

void RunLengthTable::add(const Program& program, std::uint64_t length_ns) {
  const auto entry = programs_.try_emplace(program).first;
  Past& past = entry->second;
  by_age_.erase(past.last);
  past.last = ++runs_;
  by_age_[past.last] = &entry->first;
  past.lengths_ns.push_back(length_ns);
  if (past.lengths_ns.size() > kRunsRemembered) past.lengths_ns.pop_front();
  if (programs_.size() <= kMaxPrograms) return;
  const auto oldest = by_age_.begin();
  programs_.erase(*oldest->second);
  by_age_.erase(oldest);
}

std::optional<RunLengths> RunLengthTable::expected(const Program& program) const {
  const auto found = programs_.find(program);
  if (found == programs_.end() || found->second.lengths_ns.size() < kMinRuns) return std::nullopt;
  RunLengths lengths;
  lengths.lengths_ns.assign(found->second.lengths_ns.begin(), found->second.lengths_ns.end());
  std::sort(lengths.lengths_ns.begin(), lengths.lengths_ns.end());
  lengths.at_most_ns = lengths.lengths_ns.back() + lengths.lengths_ns.back() / 10;
  return lengths;
}

}  // namespace ration::node
