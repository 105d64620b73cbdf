// Runs suspensions and resumptions one at a time, each in its own process, because moving memory takes long, and a
// driver that hangs then blocks only that process.
// Promises: a job survives the daemon, and the next daemon's first job waits for it; resumptions precede suspensions,
// because their room is already free.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/child.hpp"
#include "machine/checkpoint.hpp"

namespace ration::node {

/// The interface of jobs that move memory; tests replace the implementation.
class CheckpointJobs {
 public:
  struct Finished {
    std::string id;
    machine::CheckpointAction action = machine::CheckpointAction::kSuspend;
    Result<machine::CheckpointOutcome> outcome;
  };

  virtual ~CheckpointJobs() = default;
  /// Starts a job. `id` is the path of the workload's book.
  virtual void start(const std::string& id, machine::CheckpointAction action,
                     const std::vector<ProcessIdentity>& processes) = 0;
  /// Returns the jobs that have ended since the last call, in order. Does not wait.
  [[nodiscard]] virtual std::vector<Finished> take_finished() = 0;
};

class CheckpointProcesses final : public CheckpointJobs {
 public:
  /// Runs each job as `ration checkpoint-processes …`; `program` is the path of that `ration`. `lock_file` is locked
  /// while a job runs.
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
  std::vector<Finished> failed_;  ///< jobs that could not start
};

/// Does the work of a job, in the job's own process. Before a suspension, reads the book again while the processes are
/// locked, because they may have allocated since the last tick. If `book` is empty, skips that check.
[[nodiscard]] Result<machine::CheckpointOutcome> move_memory(const std::string& driver_folder,
                                                             machine::CheckpointAction action,
                                                             const std::vector<ProcessIdentity>& processes,
                                                             const std::string& book,
                                                             const std::string& runtime_folder);

/// Writes a process as one word of a command line; process_from_word() reads the word, and returns nothing if it is
/// invalid.
[[nodiscard]] std::string to_word(const ProcessIdentity& process);
[[nodiscard]] std::optional<ProcessIdentity> process_from_word(const std::string& word);

/// Writes the outcome of a job as a line of output; outcome_from_line() reads that line.
[[nodiscard]] std::string to_line(const Result<machine::CheckpointOutcome>& outcome);
[[nodiscard]] Result<machine::CheckpointOutcome> outcome_from_line(const std::string& line);

}  // namespace ration::node
