// The parts of a recording while its program runs, or after its `ration run` was killed: one file a process, as the
// guard writes them (guard/recorder/record_layout.hpp), and what `ration run` knew at the start. Used by `ration run`,
// which packs them, and by everything that opens a recording.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "guard/recorder/record_layout.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// The ending of the folder of a recording's parts: `train.rec.parts`.
inline constexpr const char* kPartsEnding = ".parts";

/// What `ration run` notes in the folder: at the start, and again at the end.
struct RunNote {
  std::string workload;
  std::vector<Device> devices;
  guard::Anchor began{};
  guard::Anchor ended{};  ///< zeros while it runs
  int main_pid = 0;       ///< the program itself, which ends with the run
};

/// Makes the folder for the parts of a recording at `path`, with the note and the page for processes without a part.
/// Fails with E1815, so that no program starts whose recording could not be kept.
[[nodiscard]] Result<void> make_parts(const std::string& path, const RunNote& note);
[[nodiscard]] Result<void> note_end(const std::string& path, const RunNote& note);
void remove_parts(const std::string& path);
/// Returns why processes lost events: "No space left on device".
[[nodiscard]] std::string why_lost(const std::string& path);

/// Opens the parts beside `path`. Events are merged by time while they are read; those that a process was writing when
/// it was killed are left out. Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<Recording>> open_parts(const std::string& path);

}  // namespace ration::trace
