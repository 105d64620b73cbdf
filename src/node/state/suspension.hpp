// Workloads whose device memory is in host memory for a time: which, on their way where, and who wants to come back.
// Used by Node, which decides who goes, and asks for room before it lets anybody return.
//
// How it is noticed that a suspended program wants its device back: its driver calls block, so nobody inside can say
// so. Its threads tell, each for itself: one that did not stir while it rested asks at its first stir; one that ticked
// asks when it falls silent, because a driver call keeps it; and the program asks when it works more than while it
// rested. A thread in which the driver works is left out. Asking too early costs moving the memory twice, and nothing
// else.
//
// Promises: nobody stays away unnoticed, also over a restart of the daemon (then everybody away asks), but for those
// that a person holds away and those that the driver has given up; what ended is forgotten. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "machine/process_activity.hpp"
#include "node/state/checkpoint_jobs.hpp"

namespace ration::node {

class Suspension {
 public:
  enum class State {
    kHere,
    kLeaving,    ///< its memory is being moved out
    kAway,       ///< in host memory
    kAsking,     ///< the same, and it wants to come back
    kReturning,  ///< its memory is being moved in
  };

  struct Change {
    enum class What {
      kSuspended,
      kNotSuspended,  ///< it stays where it is: `error` says why
      kAsks,
      kResumed,
      kNotResumed,  ///< it stays away and asks again, where the driver has not given it up
    };
    std::string id;
    What what = What::kSuspended;
    std::optional<Error> error;
    std::string because;  ///< why it asks
  };

  explicit Suspension(std::unique_ptr<CheckpointJobs> jobs) : jobs_(std::move(jobs)) {}

  /// It rests: from the first call on, what its threads do is what they do while it rests.
  void watch(const std::string& id, const std::vector<ProcessIdentity>& processes, std::uint64_t now_ns);
  /// It does not rest any more.
  void stop_watching(const std::string& id) { resting_.erase(id); }

  /// `held`: until `ask`, whatever its threads do. False: it is not here.
  bool suspend(const std::string& id, const std::vector<ProcessIdentity>& processes, bool held, std::uint64_t now_ns);
  /// It is wanted back; `because` is told. False: it is neither away nor on its way out.
  bool ask(const std::string& id, const std::string& because);
  /// There is room. False: it does not ask.
  bool resume(const std::string& id);
  /// It was suspended, or on its way, when the daemon before this one ended.
  void adopt(const std::string& id, const std::vector<ProcessIdentity>& processes, bool held);
  void forget(const std::string& id);

  [[nodiscard]] State state_of(const std::string& id) const;
  /// Whether its bytes are not on the device, or on their way there.
  [[nodiscard]] bool is_away(const std::string& id) const;
  [[nodiscard]] bool anything_moves() const;
  /// Whether somebody is away who may want to come back: that is noticed by looking.
  [[nodiscard]] bool anybody_may_ask() const;

  /// What happened since the last tick.
  [[nodiscard]] std::vector<Change> update(std::uint64_t now_ns);

 private:
  struct Rest {
    machine::ProcessActivity first;
    std::uint64_t since_ns = 0;
  };
  struct Workload {
    State state = State::kHere;
    std::vector<ProcessIdentity> processes;
    std::set<std::int32_t> driver_threads;
    machine::ProcessActivity last;
    std::uint64_t last_ns = 0;
    std::optional<double> resting_ns;                    ///< a second of rest; absent: not known
    std::map<std::int32_t, double> ticks;                ///< by thread that ticked at rest: how often in a second
    bool made_threads = false;                           ///< at rest
    std::map<std::int32_t, std::uint64_t> last_stirred;  ///< by thread, since it left
    std::uint64_t left_ns = 0;
    bool held = false;
    std::string asked;  ///< since the last tick, and why; empty: nobody did
  };
  [[nodiscard]] bool shows_activity(Workload& workload, std::uint64_t now_ns) const;

  std::unique_ptr<CheckpointJobs> jobs_;
  std::map<std::string, Rest> resting_;
  std::map<std::string, Workload> workloads_;  // those that are not simply here
};

}  // namespace ration::node
