// The folder of a recording's parts, and what `ration run` notes there. Used by `ration run`, which makes and removes
// the folder, and by everything that opens parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "guard/recorder/record_layout.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// The ending of the folder of a recording's parts: `train.rec.parts`.
inline constexpr const char* kPartsEnding = ".parts";

/// The note that `ration run` writes to the folder at the start, and again at the end.
struct RunNote {
  std::string workload, folder;
  std::vector<std::string> command;
  bool deep = false;
  std::vector<Device> devices;
  guard::Anchor began{};
  guard::Anchor ended{};         ///< zeros until the run has ended
  int main_pid = 0;              ///< the program itself, which ends with the run
  std::optional<int> exit_code;  ///< of the program; absent until it has ended
};

/// The exclusive right to make, pack and remove the parts of a recording, held while this descriptor is open. The right
/// ends with the process; programs that the process starts do not inherit it.
using PartsLock = FileDescriptor;

/// Makes the folder for the parts of a recording at `path`, with the note, and with the file in which processes without
/// a part count lost events. Removes the parts of an earlier run that was cut off. Fails with E1815 if the folder
/// cannot be used, or if another run is being recorded there; then the program must not start.
[[nodiscard]] Result<PartsLock> make_parts(const std::string& path, const RunNote& note);
/// Takes the right to the parts beside `path`. Returns an empty descriptor if there are no parts. Fails with E1815 if
/// another process has the right.
[[nodiscard]] Result<PartsLock> take_parts(const std::string& path);
/// Returns the note of a folder of parts; an empty note if the folder has none.
[[nodiscard]] RunNote read_note(const std::string& folder);
[[nodiscard]] Result<void> note_end(const std::string& path, const RunNote& note);
void remove_parts(const std::string& path);
/// Returns true if a run holds the right to the parts, or a process that writes a part is alive.
[[nodiscard]] bool is_recorded_now(const std::string& path);
/// Returns why processes lost events: "No space left on device".
[[nodiscard]] std::string why_lost(const std::string& path);

}  // namespace ration::trace
