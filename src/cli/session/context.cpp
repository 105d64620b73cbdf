#include "cli/session/context.hpp"

#include "cli/text/reference.hpp"

namespace ration::cli {

CommandOptions command_options(const Context& context) {
  CommandOptions options;
  for (const VerbText& verb : verb_texts()) {
    const auto add = [&](NodeOption option, const char* name, const std::string& value) {
      if ((verb.node & option) != 0 && !value.empty()) options[verb.name].emplace_back(name, value);
    };
    add(kSim, "--sim", context.simulated);
    add(kSocket, "--socket", context.socket);
  }
  return options;
}

std::string in_context(std::string_view text, const Context& context) {
  return with_command_options(text, command_options(context));
}

}  // namespace ration::cli
