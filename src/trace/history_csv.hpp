// Reads allocation histories: one CSV a run. Those of share/ration/traces have the columns `t_us,op,id,size,stream`;
// those that `ration export --format csv` writes have every field of an event. Used where recordings are opened.
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
/// By Account.
inline constexpr std::array<const char*, 3> kAccountNames{"device", "managed", "host"};

/// Reads a history into a recording of one process on one device. Its blocks are the tensors of a framework (`deep`),
/// at addresses that do not overlap; no book was charged (`booked`), so `charged` is what was requested. Segments
/// (`S`), lines without memory (`-`), frees of blocks that are not live and empty blocks are left out. A time before
/// the previous line's counts as that one; columns that neither kind of history has are left out. An exported recording
/// has its events again, but no names of devices and processes. Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_history_csv(const std::string& path);

}  // namespace ration::trace
