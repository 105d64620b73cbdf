// Which node a session is about, and commands for it. Used by everything of the command line that prints a command, and
// for the answers of the daemon that it starts. Promise: a printed command that is pasted into another terminal is
// about the same node as the one that printed it.
#pragma once

#include <string>
#include <string_view>

#include "base/command.hpp"

namespace ration::cli {

struct Context {
  std::string simulated;  ///< as --sim takes it: T4, demo; empty: the machine's own devices
  std::string socket;     ///< as --socket takes it; empty: where it usually is
};

/// The context as each verb takes it.
[[nodiscard]] CommandOptions command_options(const Context& context);

/// `text` with the context after each `ration VERB` in it, as far as that verb takes it and the command does not say
/// something else.
[[nodiscard]] std::string in_context(std::string_view text, const Context& context);

}  // namespace ration::cli
