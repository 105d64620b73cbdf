// The command that a mistyped line probably means. Errors of the command line show it in place of an example, so that
// what they advise can be typed as it stands. Promise: every advised line is one that ration's parser takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/text/arguments.hpp"

namespace ration::cli {

/// Returns the words as a command that can be typed.
[[nodiscard]] std::string command_line_of(const Arguments& words);

/// What the parser makes of a line.
struct LineVerdict {
  bool is_taken = false;
  std::size_t ours = 0;  ///< number of the words in `all` that ration takes; those behind are wrong, or the program's
};
/// Returns the verdict on a line; nothing if the line is rejected for another reason than one of its words.
using LineJudge = std::function<std::optional<LineVerdict>(const Arguments&)>;

/// Returns the line with what was probably meant in place of the words that are not taken: `ration set train --limit
/// 4GiB` for `set train -limit 4 GiB`. `options` are the long options of the verb. Returns an empty text if no
/// correction is known.
[[nodiscard]] std::string corrected_line(Arguments words, const std::vector<std::string>& options,
                                         const LineJudge& judge);

/// Returns the index of a program that was typed behind `--sim`, which takes it for the description of a node:
/// `run --sim python train.py`.
[[nodiscard]] std::optional<std::size_t> program_taken_for_node(const Arguments& words);

/// Returns E1402 if a limit stands among the words of the program, as in `run python train.py --limit 4GiB`: the
/// program would get it, and no limit would hold. `program` has the words of the program.
[[nodiscard]] Result<void> check_behind_program(const Arguments& words, const std::vector<std::string>& program);

}  // namespace ration::cli
