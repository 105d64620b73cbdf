#pragma once
// The folder of a recording that a program makes of itself. It has the form of the folders that `ration run --record`
// makes (trace/parts.hpp).
#include "book/book.hpp"
#include "guard/recorder/record_layout.hpp"

namespace ration::guard {

/// Makes the folder and in it the file that counts lost events. Returns the errno value of a failure, or 0.
[[nodiscard]] int make_own_folder(const char* folder) noexcept;

/// Writes the workload's properties, and when the recording began and ended (zeros while it runs). Returns the errno
/// value of a failure, or 0.
[[nodiscard]] int note_own_run(const char* folder, const book::Book& book, const Anchor& began,
                               const Anchor& ended) noexcept;

}  // namespace ration::guard
