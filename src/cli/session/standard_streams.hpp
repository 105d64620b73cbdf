// Handles standard output and standard error that are closed, on a full disk, or a pipe without a reader.
#pragma once

#include <functional>

#include "base/result.hpp"

namespace ration::cli {

/// Opens /dev/null at each closed descriptor from 0 to 2. Called before any other file is opened: a book with such a
/// number would receive the texts printed for people. Programs that this one starts find them closed again.
void reserve_standard_streams();

/// Calls `print` for a text that only people read. Ignores that it cannot be written, and keeps SIGPIPE from ending
/// this process.
void tell(const std::function<void()>& print);

/// Writes the rest of standard output; E1002 where that fails.
[[nodiscard]] Result<void> finish_output();

}  // namespace ration::cli
