// What was typed, before any option is looked at. Used by main().
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

struct Words {
  std::string verb;                  ///< empty: nothing was typed
  std::vector<std::string> all;      ///< the verb and everything that is for it
  std::vector<std::string> program;  ///< of `run` and `sim`: what stands behind `--`
};

/// As `rationd` it is `ration serve`.
[[nodiscard]] Words words_typed(int argc, char** argv);

/// E1001 for an option with an empty value, `--tenant=`: the parser would take the next word for it. Of a program
/// without a `--` before it the words are its own.
[[nodiscard]] Result<void> check_values(const Words& words);

}  // namespace ration::cli
