// Formats the commands that a text suggests to a person: in fixes, hints and reports. Used by everything that suggests
// a command, so that a shell never interprets a name in the command. Promise: a shell reads each word of the text
// exactly as it was passed here. with_command_options() makes a command refer to the same node wherever the command is
// pasted: the daemon calls this function for its answers, the command line (cli/context.hpp) for its output.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"

namespace ration {

/// Returns `word` as one word of a shell's line: printable, and quoted if the shell would interpret it.
[[nodiscard]] std::string shell_word(std::string_view word);

/// Returns a text that a shell script reads as the word `word`. Characters that a terminal or the shell would interpret
/// become octal escapes. The text contains newlines only if `word` ends with newlines; the closing `"` then begins a
/// line.
[[nodiscard]] std::string script_word(std::string_view word);

/// Returns `ration set nlp --limit 8GiB` for {"set", "nlp", "--limit", "8GiB"}; empty words are left out.
[[nodiscard]] std::string command(std::initializer_list<std::string_view> words);

/// Returns the words of a command line, each as one word of a shell's line. The given words are separated by spaces,
/// and quoted as by shell_word() or not at all.
[[nodiscard]] std::string quoted_words(std::string_view command_line);

/// Returns the shortest text that parse_size() reads as exactly that size: `8GiB`, `10.5GiB`, `300MiB`.
[[nodiscard]] std::string exact_size(Bytes size);

/// The options that select the node of a command, with their values, by verb: {"set", {{"--sim", "T4"}}}.
using CommandOptions = std::map<std::string, std::vector<std::pair<std::string, std::string>>, std::less<>>;

/// Returns `text` with the missing options inserted after each `ration VERB`. A quoted text ('ration run') is a name
/// and stays.
[[nodiscard]] std::string with_command_options(std::string_view text, const CommandOptions& options);

}  // namespace ration
