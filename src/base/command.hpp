// Commands that are shown to be typed: fixes, hints, reports. Used by everything that suggests one, so that a name in
// it cannot be taken for more than a name. Promise: a shell that gets the text takes each word as it was given here.
// A command that is pasted anywhere is about the same node when with_command_options() has been over it: the daemon
// does that to its answers, the command line (cli/context.hpp) to what it prints.
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

/// `word` as one word of a shell's line: quoted where the shell would do something with it, and printable.
[[nodiscard]] std::string shell_word(std::string_view word);

/// `word` as one word of a shell's script, exactly as it is: what a terminal or a line of the script would take for
/// something else is named by its number. Without a newline in it, unless `word` ends with one: then `"` begins the
/// next line.
[[nodiscard]] std::string script_word(std::string_view word);

/// `ration set nlp --limit 8GiB` of {"set", "nlp", "--limit", "8GiB"}; empty words are left out.
[[nodiscard]] std::string command(std::initializer_list<std::string_view> words);

/// The words of a command line, separated by spaces, quoted as by shell_word() or not at all, each as one word of a
/// shell's line.
[[nodiscard]] std::string quoted_words(std::string_view command_line);

/// The shortest text that parse_size() reads as exactly that size: `8GiB`, `10.5GiB`, `300MiB`.
[[nodiscard]] std::string exact_size(Bytes size);

/// By verb, the options that say which node a command is about, and their values: {"set", {{"--sim", "T4"}}}.
using CommandOptions = std::map<std::string, std::vector<std::pair<std::string, std::string>>, std::less<>>;

/// `text` with its options after each `ration VERB` in it, as far as the command does not have them. What stands in
/// quotes ('ration run') is a name, not a command.
[[nodiscard]] std::string with_command_options(std::string_view text, const CommandOptions& options);

}  // namespace ration
