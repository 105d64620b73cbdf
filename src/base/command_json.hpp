// Adds options to the commands in JSON documents. Used by the command line and the daemon for their answers.
#pragma once

#include <string>

#include "base/command.hpp"

namespace ration {

/// Adds the node's options to the commands in every `fix` of a document, which may be of either type of nlohmann::json.
template <typename Json>
void add_command_options(Json& document, const CommandOptions& options) {
  if (options.empty() || !document.is_structured()) return;
  for (auto each = document.begin(); each != document.end(); ++each) {
    if (document.is_object() && each.key() == "fix" && each->is_string())
      *each = with_command_options(each->template get<std::string>(), options);
    else
      add_command_options(*each, options);
  }
}

}  // namespace ration
