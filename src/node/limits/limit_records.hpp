// Records about limits that last from tick to tick, each for one purpose. Rules and requests get the records that they
// use.
#pragma once

#include <string>
#include <utility>

#include "node/limits/activity.hpp"
#include "node/limits/demand.hpp"
#include "node/limits/denials.hpp"
#include "node/limits/driver_limits.hpp"
#include "node/limits/limit_moves.hpp"
#include "node/limits/limit_room.hpp"
#include "node/limits/limits.hpp"
#include "node/limits/policies.hpp"
#include "node/limits/unchecked_guarantees.hpp"

namespace ration::node {

struct LimitRecords {
  /// Makes the records. Limits are saved in the file at the path `file`, or not at all if the path is empty.
  /// `balances_limits` is false if no daemon runs, so that no limit moves.
  LimitRecords(std::string file, DriverLimits by_driver, EarlierRecord earlier, bool balances_limits)
      : limits(std::move(file)),
        driver_limits(std::move(by_driver)),
        denials(limits, moves, balances_limits ? &balances : nullptr, std::move(earlier)) {}
  LimitRecords(const LimitRecords&) = delete;
  LimitRecords& operator=(const LimitRecords&) = delete;

  Limits limits;
  DriverLimits driver_limits;
  LimitMoves moves;
  Balances balances;
  Activity activity;
  Demand demand;
  RecentDenials recent_denials;
  Policies policies;
  UncheckedGuarantees unchecked;
  Denials denials;

  /// Drops the records of a workload that ended or is governed by another daemon now.
  void forget(const std::string& path) {
    limits.forget(path);
    moves.forget(path);
    activity.forget(path);
    demand.forget(path);
    policies.forget(path);
    unchecked.forget(path);
  }
};

}  // namespace ration::node
