// The recording of one run (`ration run --record FILE`): the folder that its processes write to, and the file that is
// made from the folder's parts at the end.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "admission/plan.hpp"
#include "base/result.hpp"
#include "book/store.hpp"
#include "cli/session/session.hpp"
#include "cli/start/part_watch.hpp"
#include "cli/start/run_options.hpp"
#include "trace/parts.hpp"
#include "trace/run_note.hpp"

namespace ration::cli {

class RunRecording {
 public:
  /// Fails with E1815 if `file` is no place for a recording (check_place), or if another run is recorded to it.
  [[nodiscard]] static Result<void> check(const std::string& file);
  /// Makes the folder. Sets variables for the programs that this process starts: where to record, and which call sites
  /// to record. Fails with E1815.
  [[nodiscard]] static Result<std::unique_ptr<RunRecording>> begin(const RunOptions& options, const book::Store& store,
                                                                   const std::string& workload,
                                                                   const admission::Plan& plan);

  /// Notes the end of the program. `pid` is its process.
  void program_ended(int pid, int exit_code);
  /// Packs the recording, and prints what was recorded, what was lost and what to type next; with `--summary never`,
  /// only if something was lost. If processes of the workload still run (`left_running`), packs nothing.
  void finish(const Session& session, bool left_running);
  /// Removes the folder of a program that did not start.
  void drop();

 private:
  RunRecording(std::string file, bool is_quiet, trace::RunNote note, trace::PartsLock lock)
      : file_(std::move(file)), is_quiet_(is_quiet), lock_(std::move(lock)), note_(std::move(note)) {}

  const std::string file_;
  const bool is_quiet_;
  const trace::PartsLock lock_;
  std::optional<PartWatch> watch_;
  trace::RunNote note_;
};

/// Packs the parts that lie beside `file`, and prints what was recorded. Serves programs that recorded themselves, or
/// whose `ration run` was killed. Fails with E1811.
Result<int> pack_recording(const Session& session, const std::string& file);

}  // namespace ration::cli
