// Reads allocation histories, one CSV file per run. The files in share/ration/traces have the columns
// `t_us,op,id,size,stream`; the files that `ration export --format csv` writes have every field of an event. Used where
// recordings are opened.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "trace/memory_recording.hpp"

namespace ration::trace {

/// The columns of an exported recording; the first five are those of every history.
inline constexpr const char* kExportedColumns =
    "t_us,op,id,size,stream,kind,device,account,address,charged,held,process,thread,detail,site";
/// The names of accounts, by Account.
inline constexpr std::array<const char*, 3> kAccountNames{"device", "managed", "host"};

/// Reads a history into a recording of one process on one device. Its blocks are the tensors of a framework (`deep`),
/// at addresses that do not overlap; no book was charged (`booked`), so `charged` is the requested bytes. Leaves out
/// segments (`S`), lines without memory (`-`), empty blocks, and frees of blocks that are not live. A time before that
/// of the previous line counts as the previous time. Ignores columns that are not columns of a history or of an
/// exported recording. Restores the events of an exported recording, but not the names of devices and processes. Fails
/// with E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_history_csv(const std::string& path);

}  // namespace ration::trace
