// What was typed, before any option is looked at. Used by main().
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

struct Arguments {
  std::string verb;              ///< empty: nothing was typed
  std::vector<std::string> all;  ///< the verb and everything that is for it
  std::vector<std::string>
      program;          ///< of `run`, `inject`, `snippet`, `jupyter`, `sim` and `candidates`: what stands behind `--`
  bool marked = false;  ///< of these: there was a `--`
};

/// As `rationd` it is `ration serve`. `candidates` is about the node that its words name.
[[nodiscard]] Arguments split_arguments(int argc, char** argv);

/// E1001 for an empty word among those that are for ration, the first `count` of all: `--limit "$UNSET"` is not the
/// same as no limit, and of `--tenant=` the parser would take the next word for the tenant. Only `serve --listen ""`
/// means something.
[[nodiscard]] Result<void> check_values(const Arguments& words, std::size_t count);

/// How many words are surely for ration before they are parsed: where `run` has no `--`, none.
[[nodiscard]] std::size_t surely_ours(const Arguments& words);

/// E1402 where what was typed before the program of `run` would be taken for it: `before` is what no option took.
[[nodiscard]] Result<void> check_before_program(const Arguments& words, const std::vector<std::string>& before,
                                                const std::vector<std::string>& options);

}  // namespace ration::cli
