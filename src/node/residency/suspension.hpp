// Workloads whose device memory is in host memory or moving, and their requests to resume. The daemon chooses victims,
// and checks for room before a resume.
//
// How this class notices that a suspended program needs its device: the program cannot report the need, since its
// driver calls block, but its threads show the need in one of three ways. First, a timer thread, which is active at
// rest, falls silent: it is blocked in a driver call, so the program's resume is requested. Second, the program works
// more than at rest: its resume is requested, too. Third, a thread wakes that was silent at rest. That thread may be a
// slow timer, so the request is unconfirmed, and confirmed requests precede it. If the thread wakes again at rest after
// such a resume, it counts as a timer from then on. Threads in which the driver works are ignored. A needless resume
// costs moving the memory twice, and nothing else.
//
// Promises: every suspended workload that works again requests its resume, except workloads that a person suspended and
// workloads whose restore failed for good; after a restart of the daemon, all suspended workloads except these request
// their resume; an ended workload is forgotten. Not thread-safe.
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
    kOnDevice,
    kSuspending,  ///< its memory is moving to the host
    kSuspended,   ///< in host memory
    kRequesting,  ///< in host memory, and requests its resume
    kResuming,    ///< its memory is moving to the device
  };

  struct Change {
    enum class What {
      kSuspended,
      kNotSuspended,    ///< it stays on its device; `error` says why
      kRequestsResume,  ///< repeated once the request is `confirmed`
      kResumed,
      kNotResumed,  ///< it stays suspended and requests again, unless the failure is permanent
    };
    std::string id;
    What what = What::kSuspended;
    std::optional<Error> error;
    Message reason;         ///< why it requests its resume
    bool confirmed = true;  ///< false if the request may be spurious
  };

  explicit Suspension(std::unique_ptr<CheckpointJobs> jobs) : jobs_(std::move(jobs)) {}

  /// Observes the threads of an idle workload, from the first call on, to learn its activity at rest.
  void observe_rest(const std::string& id, const std::vector<ProcessIdentity>& processes, std::uint64_t now_ns);
  /// Ends the observation, because the workload works again.
  void stop_observing(const std::string& id) { resting_.erase(id); }

  /// Starts a suspension. With `by_person`, the workload is not resumed when one of its threads has work for the
  /// device. Returns false unless the workload is on its device.
  bool suspend(const std::string& id, const std::vector<ProcessIdentity>& processes, bool by_person,
               std::uint64_t now_ns);
  /// Requests a resume for `reason`. Returns false unless the workload is suspended or moving to the host.
  bool request_resume(const std::string& id, const Message& reason);
  /// Starts the resume, for which there is room. Returns false unless the workload requests it.
  bool resume(const std::string& id);
  /// Restores the state of a workload that an earlier daemon suspended.
  void restore(const std::string& id, const std::vector<ProcessIdentity>& processes, bool by_person);
  void forget(const std::string& id);

  [[nodiscard]] State state_of(const std::string& id) const;
  /// Returns true while the workload's bytes are in host memory or moving to the device.
  [[nodiscard]] bool is_suspended(const std::string& id) const;
  [[nodiscard]] bool is_moving() const;
  /// Returns true if a suspended workload may request its resume, so that its threads must be observed often.
  [[nodiscard]] bool may_request_resume() const;

  /// Returns the changes since the last call.
  [[nodiscard]] std::vector<Change> update(std::uint64_t now_ns);

 private:
  struct Rest {
    machine::ProcessActivity first;
    std::uint64_t since_ns = 0;
  };
  /// Timer threads, each with the seconds of silence that prove a blocking driver call.
  using Timers = std::map<std::int32_t, double>;
  struct Workload {
    State state = State::kOnDevice;
    std::vector<ProcessIdentity> processes;
    std::set<std::int32_t> driver_threads;
    machine::ProcessActivity last;
    std::uint64_t last_ns = 0;
    std::optional<double> rate_at_rest;  ///< processor time per second at rest; absent if unknown
    Timers timers;
    bool has_new_threads = false;                      ///< true if threads were created while it was at rest
    std::map<std::int32_t, std::uint64_t> last_woken;  ///< time of each thread's last activity while suspended
    std::set<std::int32_t> woken;  ///< threads that were silent at rest and woke since the suspension
    bool confirmed = false;        ///< true if its resume request is confirmed
    std::uint64_t suspended_ns = 0;
    bool by_person = false;
    Message request_reason;  ///< reason of a request since the last tick; empty if there is none
  };
  /// Threads that caused an unconfirmed resume, and timers that such resumes revealed.
  struct Habits {
    std::set<std::int32_t> woken;
    Timers timers;
  };
  /// Returns true if the workload may request its resume, or confirm the request.
  [[nodiscard]] static bool may_request(const Workload& workload);
  /// Returns true if its threads have shown work since the last call.
  [[nodiscard]] static bool is_working(Workload& workload, std::uint64_t now_ns);

  std::unique_ptr<CheckpointJobs> jobs_;
  std::map<std::string, Rest> resting_;
  std::map<std::string, Habits> habits_;
  std::map<std::string, Workload> workloads_;  // workloads that are not on their device
};

}  // namespace ration::node
