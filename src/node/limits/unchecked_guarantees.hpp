// Workloads whose guarantees count only after a check against all other promises: new workloads, since their owners can
// write any guarantee into the book, and resumed workloads, since their room may meanwhile have been promised to
// others.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/bytes.hpp"

namespace ration::node {

class UncheckedGuarantees {
 public:
  /// Returns the bytes that a lease of the queue promises to a workload on a GPU.
  using Leased = std::function<Bytes(const std::string& path, int gpu)>;
  void set_leased(Leased leased) { leased_ = std::move(leased); }
  [[nodiscard]] Bytes leased_to(const std::string& path, int gpu) const {
    return leased_ ? leased_(path, gpu) : Bytes{0};
  }

  void add(const std::string& path) { paths_.try_emplace(path, false); }
  void add_resumed(const std::string& path) { paths_[path] = true; }
  [[nodiscard]] bool has(const std::string& path) const { return paths_.contains(path); }
  /// Returns true if the workload resumed from host memory.
  [[nodiscard]] bool has_resumed(const std::string& path) const {
    const auto found = paths_.find(path);
    return found != paths_.end() && found->second;
  }
  void clear() { paths_.clear(); }
  void forget(const std::string& path) { paths_.erase(path); }

 private:
  Leased leased_;                                // empty if there is no queue, because no daemon runs
  std::unordered_map<std::string, bool> paths_;  // true if has_resumed()
};

}  // namespace ration::node
