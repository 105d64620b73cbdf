// The node that a session is about, and commands for that node. Used wherever the command line prints a command, and by
// the daemon for its answers. Promise: a printed command, pasted into another terminal, reaches the same node.
#pragma once

#include <string>
#include <string_view>

#include "base/command.hpp"

namespace ration::cli {

struct Context {
  std::string simulated;  ///< value of --sim: T4, demo; empty for the devices of this machine
  std::string socket;     ///< value of --socket; empty for the usual places
};

/// Returns, for each verb, the options that make it use this context.
[[nodiscard]] CommandOptions command_options(const Context& context);

/// Returns `text` with the options of the context added to each `ration VERB` in it. Leaves out options that the verb
/// does not take, and changes no command that names a node itself.
[[nodiscard]] std::string in_context(std::string_view text, const Context& context);

}  // namespace ration::cli
