// Records requests for memory that were not met: their bytes for the balance, and their times for alerts.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "node/books/registry.hpp"

namespace ration::node {

/// Bytes denied since the last tick, or waited for, by workload and account.
class Demand {
 public:
  /// Notes the bytes that the workload waits for, and the bytes of `denied`: the denials since the last call that no
  /// earlier daemon recorded.
  void note(const Workload& workload, const std::vector<book::Denial>& denied);
  /// Returns 0 for an unknown workload or account.
  [[nodiscard]] Bytes of(const std::string& path, std::uint32_t account) const;
  void forget(const std::string& path) { wanted_.erase(path); }

 private:
  std::unordered_map<std::string, std::vector<Bytes>> wanted_;  // by path, then account
};

/// Denials of the last minute.
class RecentDenials {
 public:
  /// Notes the denials of the latest refresh. Converts their times from the book's wall clock to steady time.
  void note(const Workload& workload, std::uint64_t now_ns, std::uint64_t time_of_day_ns);
  /// Returns the number of denials by TENANT/NAME, without workloads that have none.
  [[nodiscard]] std::map<std::string, std::size_t> counts(std::uint64_t now_ns);

 private:
  std::map<std::string, std::deque<std::uint64_t>> times_;  // by TENANT/NAME
};

}  // namespace ration::node
