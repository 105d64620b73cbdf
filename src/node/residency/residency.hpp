// Suspension, resumption and trim of workloads, for rules and requests.
// Promise: nothing is kept of a workload that has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "node/limits/limits.hpp"
#include "node/residency/suspension.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

[[nodiscard]] Bytes sum(const std::vector<Bytes>& parts);
/// Finds the workload's processes in this pid namespace. Fails with E1547 if there is none, or if a process is
/// invisible or does not belong to the workload's user.
[[nodiscard]] Result<std::vector<ProcessIdentity>> processes_of(const Moment& moment, const Workload& workload);
/// Returns the processes with these pids in this pid namespace. Fails as processes_of() does.
[[nodiscard]] Result<std::vector<ProcessIdentity>> own_processes(const Workload& workload,
                                                                 const std::vector<std::int32_t>& pids);

/// The name of the requester, if the daemon starts a trim because other workloads wait for memory.
inline constexpr const char* kPressure = "pressure";

class Residency {
 public:
  /// Makes the subject. Device measurements are cached in `runtime_folder`. `simulated` is true if the devices are
  /// simulated, so that their memory is in no process.
  Residency(std::unique_ptr<CheckpointJobs> jobs, Limits& limits, std::string runtime_folder, bool simulated)
      : suspension_(std::move(jobs)),
        limits_(limits),
        runtime_folder_(std::move(runtime_folder)),
        simulated_(simulated) {}

  [[nodiscard]] Suspension& suspension() { return suspension_; }
  [[nodiscard]] const Suspension& suspension() const { return suspension_; }

  /// Starts a suspension. With `by_person`, only a person can resume the workload. Fails with E1546, E1547 or E1531.
  [[nodiscard]] Result<void> begin_suspension(const Moment& moment, const Workload& workload, bool by_person);
  /// Marks a workload as not suspended: its memory is back on its device, or was never moved.
  void end_suspension(OwnedWorkload& owned);
  /// Returns the time at which a suspension of the workload last failed; nothing if none has failed.
  [[nodiscard]] std::optional<std::uint64_t> failed_ns(const std::string& path) const;
  void note_failed(const std::string& path, std::uint64_t now_ns) { known_[path].failed_ns = now_ns; }
  /// Requests the resume that a person asked for. Returns false unless the workload is suspended or moving to the host.
  bool ask_to_resume(const std::string& path, const Message& reason);
  /// Marks a suspended workload as having room for its resume.
  void approve_resume(const Moment& moment, const std::string& path);
  [[nodiscard]] bool may_resume(const std::string& path) const;
  /// Starts to resume a workload that may_resume(). Returns false if nobody has asked to resume it.
  bool resume(const std::string& path);
  /// Writes into the workload's book whether its guarantees count.
  void set_guarantee_lapsed(const Moment& moment, const Workload& workload, OwnedWorkload& owned, bool lapsed,
                            Events& events);

  /// A pending request to free unused memory.
  struct Trim {
    Bytes used;  ///< usage before the trim
    std::uint64_t since_ns = 0;
    std::string by;
  };
  /// Notes the usage before a trim; TrimRule reports the result two seconds later. `by` is the requester.
  void begin_trim(const Moment& moment, const Workload& workload, const std::string& by);
  /// Returns the workload's pending trim; null if there is none.
  [[nodiscard]] const Trim* trim_of(const std::string& path) const;
  void end_trim(const std::string& path) { known_[path].trim.reset(); }

  void forget(const std::string& path);

 private:
  struct Known {
    std::optional<std::uint64_t> failed_ns;
    bool may_resume = false;  ///< true if enough unpromised memory is free for its resume
    std::optional<Trim> trim;
  };

  Suspension suspension_;
  Limits& limits_;
  std::string runtime_folder_;
  bool simulated_;
  std::unordered_map<std::string, Known> known_;  // by path
};

}  // namespace ration::node
