#include "config/alerts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/strings.hpp"
#include "base/units.hpp"
#include "config/values.hpp"

namespace ration::config {
namespace {

using Unit = Measure::Unit;
using Comparison = AlertRule::Comparison;

tl::unexpected<Error> wrong(const std::string& what) {
  return fail("E1601", what, "Rules look like \"tenant.used > 90% for 5m\" or \"guard.lost\".", 2);
}

Result<void> parse_threshold(const std::string& text, AlertRule& rule) {
  if (rule.measure->unit == Unit::kDuration) {
    RATION_TRY(const auto span, parse_span(text));
    rule.threshold = static_cast<double>(span.count());
  } else if (rule.measure->unit == Unit::kCount) {
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || end != text.data() + text.size())
      return wrong(fmt::format("'{}' is not an integer", text));
    rule.threshold = static_cast<double>(count);
  } else if (!text.empty() && text.back() == '%') {
    RATION_TRY(const auto share, parse_share(text));
    rule.threshold = share;
    rule.share = true;
  } else {
    const auto size = parse_size(text, kUnlimited, kUnlimited);
    if (!size || text.find("max") == 0 || text.find('%') != std::string::npos || *size >= kUnlimited)
      return wrong(fmt::format("'{}' is neither a size nor a percentage", text));
    rule.threshold = static_cast<double>(size->count());
  }
  return {};
}

/// Returns true if the rule's condition is true for the fact.
bool holds(const AlertRule& rule, const Fact& fact) {
  double value = fact.value;
  if (rule.share) {
    if (!fact.whole || *fact.whole <= 0) return false;
    value = fact.value / *fact.whole * 100;
  }
  switch (rule.comparison) {
    case Comparison::kAbove:
      return value > rule.threshold;
    case Comparison::kAtLeast:
      return value >= rule.threshold;
    case Comparison::kBelow:
      return value < rule.threshold;
    case Comparison::kAtMost:
      return value <= rule.threshold;
    case Comparison::kPresent:
      return value > 0;
  }
  return false;
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all{
      {"tenant.used", Unit::kBytes, "memory of a GPU that a tenant holds: 20GiB, or 90% of its limit"},
      {"device.used", Unit::kBytes, "memory in use on a GPU: 20GiB, or 95% of the GPU"},
      {"device.time_to_full", Unit::kDuration, "time until a GPU is full if its use grows as it does now"},
      {"idle", Unit::kDuration, "time for which a workload has been idle while it holds memory"},
      {"denials", Unit::kCount, "denied requests of a workload in the last minute"},
      {"queue.length", Unit::kCount, "number of runs that wait for memory"},
      {"guard.lost", Unit::kEvent, "the limit of a workload is no longer enforced"},
  };
  return all;
}

Result<AlertRule> parse_rule(const std::string& text) {
  AlertRule rule;
  rule.text = std::string(trimmed(text));
  const std::size_t name_end = std::min(rule.text.find_first_of(" \t<>="), rule.text.size());
  const std::string name = rule.text.substr(0, name_end);
  std::vector<std::string> names;
  for (const Measure& measure : measures()) {
    names.emplace_back(measure.name);
    if (name == measure.name) rule.measure = &measure;
  }
  if (rule.measure == nullptr) {
    const std::string meant = nearest(name, names);
    return fail("E1601",
                fmt::format("there is no measure '{}'{}", name,
                            meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
                fmt::format("Known: {}", fmt::join(names, ", ")), 2);
  }
  std::string rest{trimmed(rule.text.substr(name_end))};
  const std::size_t last_for = (" " + rest).rfind(" for ");
  if (last_for != std::string::npos) {
    RATION_TRY(const auto lasting, parse_span(std::string(trimmed(rest.substr(last_for + 4)))));
    rule.lasting = lasting;
    rest = std::string(trimmed(rest.substr(0, last_for)));
  }
  if (rule.measure->unit == Unit::kEvent) {
    if (!rest.empty()) return wrong(fmt::format("{} is true or false and cannot be compared with a value", name));
    return rule;
  }
  const bool equal = rest.size() > 1 && rest[1] == '=';
  if (rest.empty() || (rest[0] != '<' && rest[0] != '>'))
    return wrong(fmt::format("'{}' lacks the value that {} is compared with", rule.text, name));
  rule.comparison = rest[0] == '>' ? (equal ? Comparison::kAtLeast : Comparison::kAbove)
                                   : (equal ? Comparison::kAtMost : Comparison::kBelow);
  if (const auto good = parse_threshold(std::string(trimmed(rest.substr(equal ? 2 : 1))), rule); !good)
    return tl::unexpected(good.error());
  return rule;
}

std::vector<AlertChange> Alerts::evaluate(const std::vector<Fact>& facts, std::chrono::nanoseconds now) {
  std::vector<AlertChange> changes;
  States held;
  for (const AlertRule& rule : rules_) {
    for (const Fact& fact : facts) {
      if (fact.measure != rule.measure->name) continue;
      const std::pair key{rule.text, fact.about};
      const auto before = states_.find(key);
      if (!holds(rule, fact)) {
        if (before != states_.end()) before->second.value = fact.value;  // reported below
        continue;
      }
      State state{now, fact.value, false};
      if (before != states_.end()) {
        state.raised = before->second.raised;
        if (state.raised || before->second.since <= now) state.since = before->second.since;
      }
      if (!state.raised && now - state.since >= rule.lasting) {
        state.raised = true;
        changes.push_back({true, rule.text, fact.about, fact.value, state.since, rule.measure->unit, fact.whole});
      }
      held[key] = state;
    }
  }
  for (const auto& [key, state] : states_) {
    if (state.raised && held.find(key) == held.end())
      changes.push_back({false, key.first, key.second, state.value, state.since, Unit::kEvent, std::nullopt});
  }
  states_ = std::move(held);
  return changes;
}

}  // namespace ration::config
