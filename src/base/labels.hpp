// Labels of a workload, as people type them and as books, accounts and rules keep them: `team=nlp,stage=train`.
// The rules, everywhere the same: the first `=` ends the name; what has no `=` or no name before it is no label and is
// passed over; of a name that comes twice the last value counts; a value may be empty.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ration {

/// Of any text at all: books are written by strangers.
[[nodiscard]] std::map<std::string, std::string> parse_labels(std::string_view text);

/// One label that stays one wherever it is kept: a name, `=` and a value, printable and without a comma.
[[nodiscard]] bool is_label(std::string_view text);

}  // namespace ration
