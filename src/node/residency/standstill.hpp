// Resolves deadlocks: workloads that hold memory of a device and wait for each other's. The daemon suspends the victim
// that this chooses at every tick, and the victim at once requests its resume in the queue. Tests: standstill_test.cpp,
// and standstill_random_test.cpp together with the queue.
//
// Promises:
// 1. Progress: if workloads that wait hold memory that another waits for, one of them is suspended, after
//    kStandstillPatience without a change, or after kMixedPatience if some holders do not wait.
// 2. Only a waiting workload is suspended.
// 3. The longest waiter of the highest priority is never suspended. Waiting time starts at the first denial and
//    includes suspensions, so that no workload yields for ever.
// 4. One suspension per device at a time, and none while memory moves to it.
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
  std::string shared_limit;             ///< the one it waits for, with kSharedLimit
  std::set<std::string> shared_limits;  ///< limits that it shares with others: its tenant's, its policy's
};

struct StandstillWorkload {
  std::string id;
  int priority = 0;
  bool on_device = true;    ///< its memory is on its devices; false: suspended or moving
  bool moving = false;      ///< its memory is moving
  bool can_suspend = true;  ///< its memory can be moved
  std::vector<StandstillAccount> accounts;
};

struct StandstillDecision {
  std::string victim, beneficiary;
  int gpu = 0;
  std::size_t waiting = 0;  ///< waiting workloads on that device, including the victim
  Bytes freed;              ///< on that device
};

class StandstillWatch {
 public:
  /// Takes every workload at every tick, including suspended ones. Returns at most one decision a device, and one a
  /// workload.
  [[nodiscard]] std::vector<StandstillDecision> decide(const std::vector<StandstillWorkload>& workloads,
                                                       std::uint64_t now_ns);

 private:
  struct Wait {
    StandstillWorkload seen;  ///< as last seen waiting
    std::uint64_t since_ns = 0, unchanged_since_ns = 0;
    int missed = 0;  ///< ticks in a row that did not see it waiting
  };
  void note(const StandstillWorkload& workload, std::uint64_t now_ns);

  std::map<std::string, Wait> waits_;
};

}  // namespace ration::node
