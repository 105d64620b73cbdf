// Resolves deadlocks: workloads that hold memory of a device and wait for each other's memory. At every tick,
// StandstillWatch may choose a victim. The daemon suspends the victim, which at once requests its resume in the queue.
// Tests: standstill_test.cpp, and standstill_random_test.cpp together with the queue.
//
// Promises:
// 1. Progress: if waiting workloads hold memory for which another workload waits, one of the holders is suspended,
//    after kStandstillPatience without a change. If some holders of such memory do not wait, kMixedPatience applies
//    instead.
// 2. Only a waiting workload is suspended.
// 3. The longest waiter of the highest priority is never suspended. Waiting time starts at the first denial and
//    includes suspensions, so that no workload yields for ever.
// 4. One suspension per device at a time, and none while memory moves to or from the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

inline constexpr std::uint64_t kStandstillPatience = 1'000'000'000;
inline constexpr std::uint64_t kMixedPatience = 10'000'000'000;

/// The obstacle of a waiting workload.
enum class WaitsFor {
  kNothing,      ///< it does not wait there
  kOwnLimit,     ///< its own limit, which no other workload affects
  kSharedLimit,  ///< memory of other members under a shared limit
  kDevice,       ///< memory of others on the device, or guaranteed to others
};

/// One workload on one device.
struct StandstillAccount {
  int gpu = 0;
  Bytes used, guarantee;
  WaitsFor waits_for = WaitsFor::kNothing;
  std::string shared_limit;             ///< the limit that it waits for if `waits_for` is kSharedLimit
  std::set<std::string> shared_limits;  ///< limits that it shares with others: its tenant's, its policy's
};

struct StandstillWorkload {
  std::string id;
  int priority = 0;
  bool on_device = true;    ///< false while its memory is suspended or moving
  bool moving = false;      ///< true while its memory is moving
  bool can_suspend = true;  ///< true if its memory can be moved
  std::vector<StandstillAccount> accounts;
};

struct StandstillDecision {
  std::string victim, beneficiary;
  int gpu = 0;
  std::size_t waiting = 0;  ///< waiting workloads on that device, including the victim
  Bytes freed;              ///< bytes that the victim frees on that device
};

class StandstillWatch {
 public:
  /// Chooses the victims of a tick. `workloads` are all workloads, including suspended ones. Returns at most one
  /// decision for each device, and one for each workload.
  [[nodiscard]] std::vector<StandstillDecision> decide(const std::vector<StandstillWorkload>& workloads,
                                                       std::uint64_t now_ns);

 private:
  struct Wait {
    StandstillWorkload seen;  ///< the workload as last seen waiting
    std::uint64_t since_ns = 0, unchanged_since_ns = 0;
    int missed = 0;  ///< ticks in a row that did not see it waiting
  };
  void note(const StandstillWorkload& workload, std::uint64_t now_ns);

  std::map<std::string, Wait> waits_;
};

}  // namespace ration::node
