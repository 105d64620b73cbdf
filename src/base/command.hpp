// Commands that are shown to be typed: fixes, hints, reports. Used by everything that suggests one, so that a name in
// it cannot be taken for more than a name. Promise: a shell that gets the text takes each word as it was given here.
// Which node the command is about is added by who shows it (cli/context.hpp).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/bytes.hpp"

namespace ration {

/// `word` as one word of a shell's line: quoted where the shell would do something with it, and printable.
[[nodiscard]] std::string shell_word(std::string_view word);

/// `ration set nlp --limit 8GiB` of {"set", "nlp", "--limit", "8GiB"}; empty words are left out.
[[nodiscard]] std::string command(std::initializer_list<std::string_view> words);

/// A command line as a process shows it, its words separated by spaces, with each of them as one word of a shell's
/// line.
[[nodiscard]] std::string quoted_words(std::string_view command_line);

/// The shortest text that parse_size() reads as exactly that size: `8GiB`, `10.5GiB`, `300MiB`.
[[nodiscard]] std::string exact_size(Bytes size);

}  // namespace ration
