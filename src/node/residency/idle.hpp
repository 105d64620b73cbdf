// Who does nothing, and what to do about it. Used by the daemon, which tells what it saw and carries out what is
// decided. Tests: tests/unit/decisions/idle_test.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

enum class IdleAction { kReport, kTrim, kSuspend };

struct IdleStep {
  std::uint64_t after_ns = 0;
  IdleAction action = IdleAction::kReport;
};

struct IdlePolicy {
  int below_percent = 1;        ///< computing up to this share of the time counts as nothing
  std::vector<IdleStep> steps;  ///< by time

  /// The time of the step that suspends. Absent: none does.
  [[nodiscard]] std::optional<std::uint64_t> suspends_after_ns() const;
};

/// How long a program has for giving back what it was asked for: its library looks ten times a second.
inline constexpr std::uint64_t kTrimTime = 2'000'000'000;

/// What one tick saw of a workload.
struct WorkloadFacts {
  std::string id;
  Bytes used;
  std::uint64_t last_activity_ns = 0;      ///< its last charge or refund, or its start
  std::optional<int> utilisation_percent;  ///< of its processes since the last tick; absent: the driver does not tell
};

struct IdleDecision {
  std::string id;
  IdleAction action = IdleAction::kReport;
  std::uint64_t idle_ns = 0;
  std::string reason;  ///< `no memory taken or given back and no computing for 47m 00s`
};

/// Promises: a workload is idle only since it last computed or touched memory, whichever is later, and what it gives
/// back because it was asked is no work; each step of an idle time is taken once; nobody is suspended of whom it is not
/// known whether it computes (training may hold its memory still for hours), nor trimmed who holds nothing: both are
/// only reported then.
class IdleWatch {
 public:
  /// The next step. Absent: not idle for long enough, or all steps are taken.
  std::optional<IdleDecision> decide(const WorkloadFacts& facts, const IdlePolicy& policy, std::uint64_t now_ns);
  void forget(const std::string& id);
  /// Absent: never seen.
  [[nodiscard]] std::optional<std::uint64_t> idle_ns(const std::string& id, std::uint64_t now_ns) const;

 private:
  struct Seen {
    std::uint64_t busy_ns = 0;  ///< when it last computed or touched memory
    std::size_t steps_taken = 0;
    std::uint64_t trim_ends_ns = 0;  ///< until when it gives back because it was asked; 0: it was not asked
    std::uint64_t forgiven_ns = 0;   ///< what it touched up to then it gave back because it was asked
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace ration::node
