// Protects this process if its standard output or standard error is closed, lies on a full disk, or is a pipe without a
// reader.
#pragma once

#include <functional>

#include "base/result.hpp"

namespace ration::cli {

/// Opens /dev/null at each closed descriptor from 0 to 2. Called before any other file is opened: otherwise a book
/// could get such a descriptor, and would receive the texts printed for people. Programs that this process starts find
/// the descriptors closed again.
void reserve_standard_streams();

/// Takes the character set of the environment's locale, in which letters get their columns on the terminal. If that
/// locale is not installed but is one of UTF-8, takes C.UTF-8: with ssh, LANG often names a locale of the other
/// machine.
void choose_character_set();

/// Calls `print` for a text that only people read. Ignores a failure to write it, and keeps SIGPIPE from ending this
/// process.
void tell(const std::function<void()>& print);

/// Writes the rest of standard output. Fails with E1002.
[[nodiscard]] Result<void> finish_output();
/// Ends the process by SIGPIPE, silently, if `error` is EPIPE: `ration help | head -1` has all that it wants.
void end_if_nobody_reads(int error);

}  // namespace ration::cli
