// Suspending and resuming, one at a time, each in a process of its own: it takes as long as memory takes to move, and a
// driver that hangs hangs that process only. Used by suspension.cpp. Promises: a job goes on when the daemon dies, and
// the next daemon's first job waits for it; who comes back, for whom there is room already, goes before those that
// leave.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "machine/checkpoint.hpp"
#include "node/child.hpp"

namespace ration::node {

/// What moves memory; tests put their own in its place.
class CheckpointJobs {
 public:
  struct Finished {
    std::string id;
    machine::CheckpointAction action = machine::CheckpointAction::kSuspend;
    Result<machine::CheckpointOutcome> outcome;
  };

  virtual ~CheckpointJobs() = default;
  /// `id`: the path of the workload's book.
  virtual void start(const std::string& id, machine::CheckpointAction action,
                     const std::vector<ProcessIdentity>& processes) = 0;
  /// Those that have ended since the last call, in their order. Does not wait.
  [[nodiscard]] virtual std::vector<Finished> take_finished() = 0;
};

class CheckpointProcesses final : public CheckpointJobs {
 public:
  /// `program`: a `ration`, called as `ration checkpoint-processes …`. `lock_file`: whoever holds it is at work.
  CheckpointProcesses(std::string program, std::string driver_folder, std::string lock_file);

  void start(const std::string& id, machine::CheckpointAction action,
             const std::vector<ProcessIdentity>& processes) override;
  [[nodiscard]] std::vector<Finished> take_finished() override;

 private:
  struct Job {
    std::string id;
    machine::CheckpointAction action;
    std::vector<ProcessIdentity> processes;
  };
  struct Running {
    Job job;
    Child child;
  };
  void begin_next();

  std::string program_, driver_folder_, lock_file_;
  std::deque<Job> waiting_;
  std::optional<Running> running_;
  std::vector<Finished> failed_;  ///< could not even begin
};

/// A job itself: what such a process does. Of what is to leave it looks into the book once more, when the processes are
/// locked: what they came to have since the last tick stands there. `book` empty: nobody knows of them.
[[nodiscard]] Result<machine::CheckpointOutcome> move_memory(const std::string& driver_folder,
                                                             machine::CheckpointAction action,
                                                             const std::vector<ProcessIdentity>& processes,
                                                             const std::string& book,
                                                             const std::string& runtime_folder);

/// A process as one word on a command line, and back. Absent: it is none.
[[nodiscard]] std::string to_word(const ProcessIdentity& process);
[[nodiscard]] std::optional<ProcessIdentity> process_of_word(const std::string& word);

/// What such a process prints, and how it is read.
[[nodiscard]] std::string to_line(const Result<machine::CheckpointOutcome>& outcome);
[[nodiscard]] Result<machine::CheckpointOutcome> outcome_of_line(const std::string& line);

}  // namespace ration::node
