// Reads allocation histories (share/ration/traces): one CSV a run, `t_us,op,id,size,stream`; further
// columns, as `ration export --format csv` writes them, are left out. Used by what-if, exports
// and tests.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "trace/memory_recording.hpp"

namespace ration::trace {

/// Reads a history into a recording of one process on one device. Its blocks are the tensors of a framework (`deep`),
/// at addresses that do not overlap; no book was charged (`booked`), so `charged` is what was requested. Lines whose
/// operation is neither `a` nor `f`, frees of blocks that are not live and empty blocks are left out. A time before the
/// previous line's counts as that one. Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_history_csv(const std::string& path);

}  // namespace ration::trace
