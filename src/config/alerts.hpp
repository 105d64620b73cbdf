// Alerts: rules that a person wrote, and which of them are raised. Used by the daemon, which collects the facts, and by
// the configuration, which checks the rules. Pure: no clock and no driver of its own. Promises: an alert is raised once
// when its rule has held for as long as the rule says, and cleared once when it no longer holds or its subject is gone;
// changing rules does not affect alerts raised under unchanged ones.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace ration::config {

/// A value that rules can watch.
struct Measure {
  enum class Unit {
    kBytes,
    kDuration,
    kCount,
    kEvent
  };  ///< kBytes: also as a share of `whole`; kEvent: it happened or did not
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
  bool share = false;    ///< the threshold is a percentage of the whole
  std::chrono::nanoseconds lasting{0};
  std::string text;
};
/// Parses a rule. E1601.
[[nodiscard]] Result<AlertRule> parse_rule(const std::string& text);

/// One measure of one subject at this moment. Unknown values are left out.
struct Fact {
  std::string measure;          ///< "tenant.used"
  Message about;                ///< the subject: "nlp on GPU 0"; with the measure it identifies the fact over time
  double value = 1;             ///< bytes, nanoseconds, a count; 1 for an event
  std::optional<double> whole;  ///< 100 %: the limit, the device; absent: shares are unknown
};

struct AlertChange {
  bool raised = false;  ///< false: cleared
  std::string rule;
  Message about;
  double value =
      0;  ///< the value when it was raised, or when the rule no longer held; if the subject is gone, the last one
  std::chrono::nanoseconds since{0};  ///< when the rule began to hold, on the caller's clock
};

class Alerts {
 public:
  explicit Alerts(std::vector<AlertRule> rules = {}) : rules_(std::move(rules)) {}

  /// Sets the rules. Alerts of rules that no longer exist are cleared by the next evaluate().
  void configure(std::vector<AlertRule> rules) { rules_ = std::move(rules); }

  /// Evaluates all facts of one moment; the subject of a missing fact is gone. `now` is from a clock that does not
  /// stop; if it goes backward, a rule that has not held long enough starts again.
  std::vector<AlertChange> evaluate(const std::vector<Fact>& facts, std::chrono::nanoseconds now);

 private:
  struct State {
    std::chrono::nanoseconds since{0};
    double value = 0;
    bool raised = false;
  };
  using States = std::map<std::pair<std::string, Message>, State>;

  std::vector<AlertRule> rules_;
  States states_;  ///< of rules that hold
};

}  // namespace ration::config
