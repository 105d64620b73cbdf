// The words of a command line, before any option is parsed. Used by main().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

struct Arguments {
  std::string verb;                  ///< the first word; empty if none was typed
  std::vector<std::string> all;      ///< the verb and every word meant for it
  std::vector<std::string> program;  ///< the words after `--`, for the verbs that take a program
  bool marked = false;               ///< true if there was a `--` before a program
};

/// Returns true if words after `--` belong to a program.
[[nodiscard]] bool takes_program(const std::string& verb);

/// Moves the words after `--` to the program, if the verb takes one.
void mark_program(Arguments& words);

/// Splits a command line into verb, options and program. If the command's name is `rationd`, adds the verb `serve`. For
/// `candidates`, adds the node options of the line that is being completed.
[[nodiscard]] Arguments split_arguments(int argc, char** argv);

/// Returns E1001 if one of the first `count` words is empty: `--limit "$UNSET"` must not run without a limit, and
/// after `--tenant=` the parser would take the next word as the tenant. Accepts `serve --listen ""` alone.
[[nodiscard]] Result<void> check_values(const Arguments& words, std::size_t count);

/// Returns the index of the first of the first `count` words that is an option of `options` with one hyphen (`-limit`,
/// which the parser would read as `-l imit`) or with a long dash in place of its hyphens.
[[nodiscard]] std::optional<std::size_t> first_without_hyphens(const Arguments& words, std::size_t count,
                                                               const std::vector<std::string>& options);

/// Returns E1001 for such a word.
[[nodiscard]] Result<void> check_hyphens(const Arguments& words, std::size_t count,
                                         const std::vector<std::string>& options);

/// Returns how many words certainly belong to ration. For `run` without `--`, returns 0, because any word may belong to
/// the program; otherwise returns the number of all words.
[[nodiscard]] std::size_t surely_ours(const Arguments& words);

/// Returns E1402 if a word before the program of `run` would itself be started as the program. `before` holds the words
/// that belong to no option.
[[nodiscard]] Result<void> check_before_program(const Arguments& words, const std::vector<std::string>& before,
                                                const std::vector<std::string>& options);

}  // namespace ration::cli
