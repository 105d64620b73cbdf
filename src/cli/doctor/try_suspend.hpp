// A program of ration's own, moved to the host and back on a device of this machine: what `ration doctor --try-suspend`
// does before anybody's program is suspended.
#pragma once

#include <string>

#include "cli/session/session.hpp"
#include "machine/checkpoint.hpp"

namespace ration::cli {

struct Trial {
  machine::Tried moved;
  std::string problem;  ///< what happened where not all was moved; empty: all was
};

/// First plain memory; then, where that came back, memory that two processes hold. What is lost is ration's own.
[[nodiscard]] Trial try_suspension(const Session& session, const machine::Device& device);

}  // namespace ration::cli
