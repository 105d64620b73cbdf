// The times at which each workload last allocated or freed memory, or was denied memory.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "node/books/registry.hpp"

namespace ration::node {

class Activity {
 public:
  /// Notes activity if the workload's usage or its number of denials has changed since the last call.
  void note(const Workload& workload, std::uint64_t now_ns) {
    Seen& seen = seen_[workload.path];
    if (seen.since_ns == 0 || seen.used != workload.used || seen.denials != workload.book.denial_count)
      seen = {workload.used, workload.book.denial_count, now_ns};
  }
  /// Counts a resume as activity.
  void note_resumed(const std::string& path, std::uint64_t now_ns) { seen_[path].since_ns = now_ns; }
  /// Returns the time of the workload's last activity; 0 if the workload was not observed yet.
  [[nodiscard]] std::uint64_t since_ns(const std::string& path) const {
    const auto found = seen_.find(path);
    return found == seen_.end() ? 0 : found->second.since_ns;
  }
  void forget(const std::string& path) { seen_.erase(path); }

 private:
  struct Seen {
    std::vector<Bytes> used;
    std::uint64_t denials = 0, since_ns = 0;
  };
  std::unordered_map<std::string, Seen> seen_;  // by path
};

}  // namespace ration::node
