// Standard output and error where they cannot be written: closed, on a full device, or with nobody who reads on.
#pragma once

#include <functional>

#include "base/result.hpp"

namespace ration::cli {

/// Before any file is opened: gives /dev/null the numbers 0 to 2 that are closed, so that no file of ours gets them and
/// texts for people go into a book. Programs that are started find them closed, as they were.
void reserve_standard_streams();

/// Runs what prints something that only people read; if it cannot be written, nothing else is lost, and SIGPIPE ends
/// nobody.
void tell(const std::function<void()>& print);

/// Writes what is left of standard output. E1002: it could not be written.
[[nodiscard]] Result<void> finish_output();

}  // namespace ration::cli
