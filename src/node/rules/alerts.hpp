// The rules of [alerts], evaluated against the latest snapshot.
#pragma once

#include "config/alerts.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class AlertRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  void configure(const config::Configuration& configuration) override {
    alerts_.configure(configuration.alerts.rules.value);
  }

 private:
  config::Alerts alerts_;
};

}  // namespace ration::node
