// `ration checkpoint-processes`, which the daemon runs: moves the memory of programs.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include "base/file.hpp"
#include "book/store.hpp"
#include "cli/verbs/verbs.hpp"
#include "node/residency/checkpoint_jobs.hpp"

namespace ration::cli {

Result<int> checkpoint_processes(const CheckpointOptions& options) {
  // Lets one process at a time move memory, since a job of a daemon that died may still be at work.
  const FileDescriptor lock{options.lock.empty() ? -1
                                                 : ::open(options.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (lock) ::flock(lock.get(), LOCK_EX);
  std::vector<ProcessIdentity> processes;
  for (const std::string& word : options.processes) {
    const auto process = node::process_from_word(word);
    if (!process) return fail("E1001", fmt::format("'{}' is not a process.", word), "ration suspend NAME", 2);
    processes.push_back(*process);
  }
  const auto store = book::Store::open();
  const auto outcome = node::move_memory(
      options.driver_folder,
      options.action == "suspend" ? machine::CheckpointAction::kSuspend : machine::CheckpointAction::kResume, processes,
      options.book, store ? store->folder() : "");
  fmt::print("{}", node::to_line(outcome));
  return outcome ? 0 : outcome.error().exit_code;
}

}  // namespace ration::cli
