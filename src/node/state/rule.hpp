// A rule of the daemon: it sees the state after the snapshot was taken (or, where its header says so, before), decides,
// writes what it decided into the books, and tells of it. The engine runs the rules in one declared order (rules.cpp).
// A rule keeps to itself what it needs from one tick to the next, and never calls another rule.
#pragma once

#include <string>
#include <vector>

#include "node/state/node_state.hpp"

namespace ration::node {

class Rule {
 public:
  Rule() = default;
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  virtual ~Rule() = default;

  virtual void run(NodeState& state, Events& events) = 0;
  /// That workload has ended, or is another daemon's.
  virtual void forget(const std::string& path) { (void)path; }
  /// New settings, before the first tick and after every reload.
  virtual void configure(const config::Configuration& configuration) { (void)configuration; }
  /// Whether the next tick should come soon: something is half seen.
  [[nodiscard]] virtual bool is_unsettled() const { return false; }
};

}  // namespace ration::node
