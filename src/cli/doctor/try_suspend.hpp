// A trial that moves a program of ration to the host and back on a device of this machine. Used by `ration doctor
// --try-suspend`; other programs are suspended only after it succeeded.
#pragma once

#include <string>

#include "cli/session/session.hpp"
#include "machine/checkpoint.hpp"

namespace ration::cli {

struct Trial {
  machine::Tried moved;
  std::string problem;  ///< reason why some memory was not moved; empty if all was
};

/// Tries plain memory and, if that comes back, memory that two processes share. Only ration's own memory is at risk.
[[nodiscard]] Trial try_suspension(const Session& session, const machine::Device& device);

}  // namespace ration::cli
