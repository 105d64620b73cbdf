// Decides which workloads are idle, and what to do about them. The daemon passes in its observations and carries out
// the decisions. Tests: tests/unit/decisions/idle_test.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"
#include "config/configuration.hpp"

namespace ration::node {

using config::IdleAction;

struct IdleStep {
  std::uint64_t after_ns = 0;
  IdleAction action = IdleAction::kReport;
};

struct IdlePolicy {
  int below_percent = 1;        ///< a workload that computes for at most this share of the time counts as idle
  std::vector<IdleStep> steps;  ///< by time

  /// Returns the idle time after which a step suspends; nothing if no step does.
  [[nodiscard]] std::optional<std::uint64_t> suspends_after_ns() const;
};

/// Time that a program gets to return memory after a trim request. Its library looks for requests ten times a second.
inline constexpr std::uint64_t kTrimTime = 2'000'000'000;

/// Observations of a workload in one tick.
struct IdleObservation {
  std::string id;
  Bytes used;
  std::uint64_t last_activity_ns = 0;  ///< time at which it last allocated or freed memory, or started
  /// The utilisation by its processes since the last tick; absent if the driver does not report it.
  std::optional<int> utilisation_percent;
};

struct IdleDecision {
  std::string id;
  IdleAction action = IdleAction::kReport;
  std::uint64_t idle_ns = 0;
  Message reason;  ///< for people: `no memory allocated or freed, and no computation, for 47m 00s`
};

/// Promises: a workload counts as idle since it last computed, allocated memory, or freed memory without a trim
/// request; each step is taken once per idle time; a workload is reported instead of suspended if it is unknown whether
/// it computes, since training may leave its memory unchanged for hours; a workload that holds no memory is only
/// reported.
class IdleWatch {
 public:
  /// Returns the next step if it is due; else nothing.
  std::optional<IdleDecision> decide(const IdleObservation& observed, const IdlePolicy& policy, std::uint64_t now_ns);
  void forget(const std::string& id);
  /// Returns how long the workload has been idle; nothing for an unknown workload.
  [[nodiscard]] std::optional<std::uint64_t> idle_ns(const std::string& id, std::uint64_t now_ns) const;

 private:
  struct History {
    std::uint64_t busy_ns = 0;  ///< time at which it last computed, or allocated or freed memory
    std::size_t steps_taken = 0;
    std::uint64_t trim_ends_ns = 0;        ///< end of a trim request; 0 if none is pending
    std::uint64_t requested_until_ns = 0;  ///< memory freed up to this time was freed for a trim request
  };
  std::map<std::string, History> histories_;
};

}  // namespace ration::node
