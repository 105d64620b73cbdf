// One decision of the daemon, made at every tick: it reads the state, writes limits into books, and reports events.
// Rules run in the order that rules.cpp declares, after the snapshot unless that file says otherwise. A rule keeps its
// own memory between ticks, and calls no other rule.
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
  /// Drops what the rule keeps of a workload that ended or changed to another daemon.
  virtual void forget(const std::string& path) { (void)path; }
  /// Takes new settings, before the first tick and after each reload.
  virtual void configure(const config::Configuration& configuration) { (void)configuration; }
  /// Returns true if the rule needs the next tick soon.
  [[nodiscard]] virtual bool is_unsettled() const { return false; }
};

}  // namespace ration::node
