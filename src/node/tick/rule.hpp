// One decision of the daemon, made at every tick. A rule reads the moment, changes the subjects that its constructor
// was given, writes limits into books, and reports events. Rules run in the order that engine/rules.cpp declares. A
// rule keeps its own memory between ticks, and calls no other rule.
#pragma once

#include <memory>
#include <string>

#include "node/tick/effects.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

class Rule {
 public:
  Rule() = default;
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  virtual ~Rule() = default;

  virtual void run(const Moment& moment, Effects& effects) = 0;
  /// Drops what the rule keeps of a workload that ended, or that another daemon governs now.
  virtual void forget(const std::string& path) { (void)path; }
  /// Takes new settings, before the first tick and after each reload.
  virtual void configure(const config::Configuration& configuration) { (void)configuration; }
  /// Returns true if the rule needs the next tick soon.
  [[nodiscard]] virtual bool is_unsettled() const { return false; }
};

}  // namespace ration::node
