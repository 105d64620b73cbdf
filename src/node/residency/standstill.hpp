// Who leaves a device when programs that hold its memory wait for each other's. Used by the daemon at every tick: it
// suspends whom this names, and that one asks at once to come back, in the queue. Tests: standstill_test.cpp, and
// standstill_random_test.cpp, which runs the queue beside it.
//
// Promises:
// 1. A program that waits for memory held by others that wait as well is served: of these one leaves the device after
//    kStandstillPatience without a change, and after kMixedPatience where some of the holders do not wait.
// 2. Only a program that waits itself leaves: whoever works or rests is not touched.
// 3. Whoever waited longest of the highest priority never leaves for others. The time counts from the first denial
//    and goes on while the program is away, so nobody gives way for ever.
// 4. One at a time on a device, and nobody while memory is on its way there.
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

/// What keeps a waiting program from its bytes.
enum class WaitsFor {
  kNothing,  ///< it does not wait there
  kItself,   ///< its own limit: nobody else can help
  kPool,     ///< what the other members of one of its pools hold
  kDevice,   ///< what others hold on the device, or what is kept there for others
};

/// One workload on one device.
struct StandstillPlace {
  int gpu = 0;
  Bytes used, guarantee;
  WaitsFor waits_for = WaitsFor::kNothing;
  std::string pool;             ///< of kPool
  std::set<std::string> pools;  ///< limits that it shares with others: its tenant's, its policy's
};

struct StandstillWorkload {
  std::string id;
  int priority = 0;
  bool here = true;       ///< its memory is on its devices; else it is away, or on its way
  bool moves = false;     ///< it is on its way
  bool can_leave = true;  ///< its memory can be moved away
  std::vector<StandstillPlace> places;
};

struct StandstillDecision {
  std::string leaves, for_whom;
  int gpu = 0;
  std::size_t waiting = 0;  ///< workloads that wait on that device, the one that leaves included
  Bytes freed;              ///< on that device
};

class StandstillWatch {
 public:
  /// Every workload at every tick, also those that are away. At most one decision a device, and one a workload.
  [[nodiscard]] std::vector<StandstillDecision> decide(const std::vector<StandstillWorkload>& workloads,
                                                       std::uint64_t now_ns);

 private:
  struct Wait {
    StandstillWorkload seen;  ///< when it last waited
    std::uint64_t since_ns = 0, unchanged_since_ns = 0;
    int missed = 0;  ///< ticks in a row that did not see it wait
  };
  void note(const StandstillWorkload& workload, std::uint64_t now_ns);

  std::map<std::string, Wait> waits_;
};

}  // namespace ration::node
