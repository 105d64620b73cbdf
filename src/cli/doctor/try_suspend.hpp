// A trial that moves the memory of one of ration's own programs from a device of this machine to the host and back.
// Used by `ration doctor --try-suspend`. Other programs are suspended only after the trial has succeeded.
#pragma once

#include <string>

#include "cli/session/session.hpp"
#include "machine/checkpoint.hpp"

namespace ration::cli {

struct Trial {
  machine::Tried moved;
  std::string problem;  ///< reason why some memory was not moved; empty if all was
};

/// Tries plain memory and, if plain memory comes back intact, memory that two processes share. Only ration's own memory
/// is at risk.
[[nodiscard]] Trial try_suspension(const Session& session, const machine::Device& device);

}  // namespace ration::cli
