// The folder of a recording's parts, and what `ration run` notes there. Used by `ration run`, which makes and removes
// it, and by everything that opens parts.
#pragma once

#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "guard/recorder/record_layout.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// The ending of the folder of a recording's parts: `train.rec.parts`.
inline constexpr const char* kPartsEnding = ".parts";

/// What `ration run` notes in the folder: at the start, and again at the end.
struct RunNote {
  std::string workload, folder;
  std::vector<std::string> command;
  bool deep = false;
  std::vector<Device> devices;
  guard::Anchor began{};
  guard::Anchor ended{};  ///< zeros while it runs
  int main_pid = 0;       ///< the program itself, which ends with the run
};

/// The sole right to make, pack and remove the parts of a recording, for as long as it is open. It ends with its
/// process; programs that this one starts do not inherit it.
using PartsLock = FileDescriptor;

/// Makes the folder for the parts of a recording at `path`, with the note and the page for processes without a part.
/// What was cut off there before is removed. Fails with E1815, so that no program starts whose recording could not be
/// kept, nor takes the place of one that is made.
[[nodiscard]] Result<PartsLock> make_parts(const std::string& path, const RunNote& note);
/// Takes the parts beside `path`; there may be none, and then nothing is taken. Fails with E1815 if another process has
/// them.
[[nodiscard]] Result<PartsLock> take_parts(const std::string& path);
/// Returns the note of a folder of parts; an empty one if it has none.
[[nodiscard]] RunNote read_note(const std::string& folder);
[[nodiscard]] Result<void> note_end(const std::string& path, const RunNote& note);
void remove_parts(const std::string& path);
/// Returns true if a process that writes a part is there, or a run that has begun.
[[nodiscard]] bool is_recorded_now(const std::string& path);
/// Returns why processes lost events: "No space left on device".
[[nodiscard]] std::string why_lost(const std::string& path);

}  // namespace ration::trace
