// Workloads whose device memory is in host memory for a time: which, on their way where, and who wants to come back.
// Used by Node, which decides who goes, and asks for room before it lets anybody return.
//
// How it is noticed that a suspended program wants its device back: its driver calls block, so nobody inside can say
// so. Its threads tell, each for itself: one that ticked while it rested asks when it falls silent, because a driver
// call keeps it; the program asks when it works more than while it rested; and one that did not stir while it rested
// asks at its first stir, but not surely: it may be a timer slower than the rest that was seen. So whoever surely works
// goes first, and a thread that stirs while its program rests again after such a return is known to tick from then on.
// A thread in which the driver works is left out. Asking too early costs moving the memory twice, and nothing else.
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
#include "node/residency/checkpoint_jobs.hpp"

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
      kAsks,          ///< once more when it comes to be `sure`
      kResumed,
      kNotResumed,  ///< it stays away and asks again, where the driver has not given it up
    };
    std::string id;
    What what = What::kSuspended;
    std::optional<Error> error;
    std::string because;  ///< why it asks
    bool sure = true;     ///< that it does
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
  /// By thread that ticks: after so many seconds of silence a driver call keeps it.
  using Ticking = std::map<std::int32_t, double>;
  struct Workload {
    State state = State::kHere;
    std::vector<ProcessIdentity> processes;
    std::set<std::int32_t> driver_threads;
    machine::ProcessActivity last;
    std::uint64_t last_ns = 0;
    std::optional<double> resting_ns;  ///< a second of rest; absent: not known
    Ticking ticking;
    bool made_threads = false;                           ///< at rest
    std::map<std::int32_t, std::uint64_t> last_stirred;  ///< by thread, since it left
    std::set<std::int32_t> stirred;                      ///< those that did not tick, and did since it left
    bool sure = false;                                   ///< it asks, and surely
    std::uint64_t left_ns = 0;
    bool held = false;
    std::string asked;  ///< since the last tick, and why; empty: nobody did
  };
  /// The threads for whose stirring it came back, not surely asked; and those that tick, as such returns have shown.
  struct Habits {
    std::set<std::int32_t> stirred;
    Ticking ticking;
  };
  /// Whether it may ask, or may come to be sure that it asks.
  [[nodiscard]] static bool may_ask(const Workload& workload);
  /// Whether it surely works, as its threads show since the last call.
  [[nodiscard]] static bool works(Workload& workload, std::uint64_t now_ns);

  std::unique_ptr<CheckpointJobs> jobs_;
  std::map<std::string, Rest> resting_;
  std::map<std::string, Habits> habits_;
  std::map<std::string, Workload> workloads_;  // those that are not simply here
};

}  // namespace ration::node
