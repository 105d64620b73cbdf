// The policy of the configuration that applies to each workload, looked up once.
#pragma once

#include <string>
#include <unordered_map>

#include "node/tick/moment.hpp"

namespace ration::node {

class Policies {
 public:
  /// Returns the first policy that matches; null if none does. The pointer is valid until the next configure().
  [[nodiscard]] const config::Policy* of(const Moment& moment, const Workload& workload);
  /// Drops the results of earlier look-ups, after a change of the configuration.
  void configure() { known_.clear(); }
  void forget(const std::string& path) { known_.erase(path); }

 private:
  std::unordered_map<std::string, const config::Policy*> known_;  // by path
};

}  // namespace ration::node
