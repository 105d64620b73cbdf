// Evaluates the alert rules that a person wrote, and remembers which alerts are raised. Used by the daemon, which
// collects the facts, and by the configuration, which checks the rules. Has no clock and no driver of its own.
// Promises: an alert is raised once when its rule has held for as long as the rule says, and cleared once when the rule
// no longer holds or its subject is gone; a change of some rules does not affect alerts of the other rules.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace ration::config {

/// A value that rules can compare.
struct Measure {
  enum class Unit {
    kBytes,
    kDuration,
    kCount,
    kEvent
  };  ///< a rule may compare kBytes as a share of `Fact::whole`; kEvent has happened or not
  const char* name;
  Unit unit;
  const char* meaning;
};
[[nodiscard]] const std::vector<Measure>& measures();

/// A rule such as `tenant.used > 90% for 5m`.
struct AlertRule {
  enum class Comparison { kAbove, kAtLeast, kBelow, kAtMost, kPresent };
  const Measure* measure = nullptr;
  Comparison comparison = Comparison::kPresent;
  double threshold = 0;  ///< bytes, nanoseconds, a count, or per cent
  bool share = false;    ///< true if the threshold is a percentage of the whole
  std::chrono::nanoseconds lasting{0};
  std::string text;
};
/// Parses a rule. Fails with E1601.
[[nodiscard]] Result<AlertRule> parse_rule(const std::string& text);

/// The value of one measure of one subject at this moment. There is no fact for an unknown value.
struct Fact {
  std::string measure;          ///< "tenant.used"
  Message about;                ///< such as "nlp on GPU 0"; together with the measure, identifies the fact over time
  double value = 1;             ///< bytes, nanoseconds, a count; 1 for an event
  std::optional<double> whole;  ///< the limit or the device, as 100 %; absent if shares are unknown
};

struct AlertChange {
  bool raised = false;  ///< false if the alert is cleared
  std::string rule;
  Message about;
  double value = 0;  ///< the value at the raise or the clearing; if the subject is gone, its last value
  std::chrono::nanoseconds since{0};  ///< when the rule began to hold, by the caller's clock
  Measure::Unit unit = Measure::Unit::kEvent;
  std::optional<double> whole;  ///< as in the fact; absent if the alert is cleared
};

class Alerts {
 public:
  explicit Alerts(std::vector<AlertRule> rules = {}) : rules_(std::move(rules)) {}

  /// Sets the rules. The next evaluate() clears the alerts of rules that no longer exist.
  void configure(std::vector<AlertRule> rules) { rules_ = std::move(rules); }

  /// Evaluates all facts of one moment. A subject without a fact is gone. `now` comes from a clock that does not stop;
  /// if `now` goes backward, a rule that has not held long enough begins again.
  std::vector<AlertChange> evaluate(const std::vector<Fact>& facts, std::chrono::nanoseconds now);

 private:
  struct State {
    std::chrono::nanoseconds since{0};
    double value = 0;
    bool raised = false;
  };
  using States = std::map<std::pair<std::string, Message>, State>;

  std::vector<AlertRule> rules_;
  States states_;  ///< the rules that hold now
};

}  // namespace ration::config
