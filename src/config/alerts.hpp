// Alerts: rules that a person wrote, and which of them are raised. Used by the daemon, which collects the facts, and by
// the configuration, which checks the rules. Pure: no clock and no driver of its own.
// Promises: an alert is raised once when its rule has held for as long as the rule says, and cleared once when it no
// longer holds or what it was about is gone; changed rules do not forget what is raised under those that stay.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace ration::config {

/// Something that rules can watch.
struct Measure {
  enum class Unit { kBytes, kDuration, kCount, kEvent };  ///< kBytes: also as a share of `whole`; kEvent: is or is not
  const char* name;
  Unit unit;
  const char* meaning;
};
[[nodiscard]] const std::vector<Measure>& measures();

/// `tenant.used > 90% for 5m`
struct AlertRule {
  enum class Comparison { kAbove, kAtLeast, kBelow, kAtMost, kPresent };
  const Measure* measure = nullptr;
  Comparison comparison = Comparison::kPresent;
  double threshold = 0;  ///< bytes, nanoseconds, a count, or per cent
  bool share = false;    ///< the threshold is per cent of the whole
  std::chrono::nanoseconds lasting{0};
  std::string text;
};
/// E1601.
[[nodiscard]] Result<AlertRule> parse_rule(const std::string& text);

/// What a rule looks at: one measure of one thing, now. What is not known is not given.
struct Fact {
  std::string measure;          ///< "tenant.used"
  std::string about;            ///< whose: "nlp on GPU 0"; with the measure it is the same thing every time
  double value = 1;             ///< bytes, nanoseconds, a count; of an event: 1
  std::optional<double> whole;  ///< what 100% is: the limit, the device; not given: shares are not known
};

struct AlertChange {
  bool raised = false;  ///< false: cleared
  std::string rule, about;
  double value = 0;  ///< what it was when it was raised, or when it no longer held; gone: what it was last
  std::chrono::nanoseconds since{0};  ///< when the rule began to hold, on the clock that was given
};

class Alerts {
 public:
  explicit Alerts(std::vector<AlertRule> rules = {}) : rules_(std::move(rules)) {}

  /// New rules. What was raised by a rule that is no longer there is cleared by the next evaluate().
  void configure(std::vector<AlertRule> rules) { rules_ = std::move(rules); }

  /// All facts of one moment; what is missing has gone. `now` from a clock that does not stop; where it goes backward,
  /// what did not hold long enough begins anew.
  std::vector<AlertChange> evaluate(const std::vector<Fact>& facts, std::chrono::nanoseconds now);

 private:
  struct State {
    std::chrono::nanoseconds since{0};
    double value = 0;
    bool raised = false;
  };
  using States = std::map<std::pair<std::string, std::string>, State>;

  std::vector<AlertRule> rules_;
  States states_;  ///< of rules that hold
};

}  // namespace ration::config
